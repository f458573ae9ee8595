"""A Responses request to the engine's request, and to what the response repeats of it."""

from dataclasses import replace

from deployments.errors import InvalidRequestError
from deployments.resource.response import RequestEcho
from deployments.wire.responses_request import CreateResponse, InputMessage
from engine.types import ChatMessage, GenerateRequest, ModelCard, SamplingParams


def to_generate_request(
    request: CreateResponse, card: ModelCard, generation_id: str
) -> GenerateRequest:
    """What the engine is asked.

    Raises:
        InvalidRequestError: where nothing is left to answer (RA's effective-input check).
    """
    messages = to_chat_messages(request)
    if all(not message.content.strip() for message in messages):
        raise InvalidRequestError(
            "The request has no effective input: give 'input' or 'instructions' some text.",
            "input",
            "missing_required_parameter",
        )
    return GenerateRequest(
        generation_id=generation_id,
        messages=messages,
        sampling=to_sampling(request, card),
        max_tokens=to_max_tokens(request, card),
        stop=to_stop(request),
    )


def to_chat_messages(request: CreateResponse) -> tuple[ChatMessage, ...]:
    """Instructions as a leading system message, then the input."""
    leading = [ChatMessage("system", request.instructions)] if request.instructions else []
    match request.input:
        case None:
            return tuple(leading)
        case str(text):
            return (*leading, ChatMessage("user", text))
        case items:
            return (*leading, *(to_chat_message(item) for item in items))


def to_chat_message(item: InputMessage) -> ChatMessage:
    """One message; its text parts are joined with newlines, and `developer` is `system` (RA)."""
    role = "system" if item.role == "developer" else item.role
    if isinstance(item.content, str):
        return ChatMessage(role, item.content)
    return ChatMessage(role, "\n".join(part.text for part in item.content))


def to_sampling(request: CreateResponse, card: ModelCard) -> SamplingParams:
    """What the request says, the model's own settings where it says nothing."""
    names = (
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "seed",
    )
    sent = {name: value for name in names if (value := getattr(request, name)) is not None}
    bias = tuple((int(key), value) for key, value in (request.logit_bias or {}).items())
    return replace(card.default_sampling, logit_bias=bias, **sent)


def to_stop(request: CreateResponse) -> tuple[str, ...]:
    match request.stop:
        case None:
            return ()
        case str(text):
            return (text,)
        case texts:
            return tuple(texts)


def to_max_tokens(request: CreateResponse, card: ModelCard) -> int | None:
    return request.max_output_tokens or card.default_max_tokens


def to_echo(request: CreateResponse, card: ModelCard, is_stored: bool) -> RequestEcho:
    sampling = to_sampling(request, card)
    return RequestEcho(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        is_stored=is_stored,
        instructions=request.instructions,
        max_output_tokens=to_max_tokens(request, card),
        max_tool_calls=request.max_tool_calls,
        metadata=request.metadata,
        parallel_tool_calls=request.parallel_tool_calls is not False,
        prompt_cache_key=request.prompt_cache_key,
        reasoning=to_reasoning_echo(request),
        safety_identifier=request.safety_identifier,
        service_tier=request.service_tier or "default",
        tool_choice=request.tool_choice or "auto",
        user=request.user,
        verbosity=request.text.verbosity if request.text else None,
    )


def to_reasoning_echo(request: CreateResponse) -> dict[str, str | None] | None:
    if request.reasoning is None:
        return None
    return {"effort": request.reasoning.effort, "summary": request.reasoning.summary}
