"""A request of Completions to the engine's request: a raw prompt, without a chat template."""

from deployments.errors import InvalidRequestError
from deployments.translate.sampling import to_sampling, to_stop
from deployments.wire.completions_request import CompletionRequest
from engine.types import GenerateRequest, ModelCard


def to_completion_generation(
    request: CompletionRequest, card: ModelCard, generation_id: str
) -> GenerateRequest:
    """What the engine is asked.

    Raises:
        InvalidRequestError: where the prompt is of white space alone (RA). An empty one is taken:
            it continues from the token that begins a text.
    """
    prompt = request.single_prompt
    if isinstance(prompt, str) and prompt and not prompt.strip():
        raise InvalidRequestError(
            "The request has no effective input: 'prompt' is of white space alone.",
            "prompt",
            "missing_required_parameter",
        )
    return GenerateRequest(
        generation_id=generation_id,
        messages=(),
        sampling=to_sampling(request, card),
        max_tokens=request.max_tokens or card.default_max_tokens,
        stop=to_stop(request),
        top_logprobs=request.logprobs,
        prompt=prompt,
    )
