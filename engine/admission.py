"""Turns a request into a generation that can run, or says why it cannot, before it takes a place.

Every number that reaches the model has been checked here. No MLX, and no thread's own state.
"""

from collections.abc import Sequence

from engine.core import Generation
from engine.detokenizer import Detokenizer
from engine.errors import (
    ContextLengthError,
    GenerationFailedError,
    LogitBiasError,
    RequestError,
    UnknownTokenError,
)
from engine.loader import LoadedModel
from engine.output_text import OutputText
from engine.sequence import SequenceParams
from engine.stop_strings import StopStrings
from engine.turns import to_parts
from engine.types import ChatMessage, GenerateRequest

# Unicode normalisation composes characters: three bytes may come of nine.
MAX_SHRINKING = 3


class Admission:
    """The checks of one model."""

    def __init__(self, model: LoadedModel) -> None:
        self._model = model

    def tokenize(self, request: GenerateRequest) -> list[int]:
        """The tokens of a request's prompt. It may take long for a long one.

        Messages are rendered, and their template says which special tokens there are. A raw text
        gets those that its tokenizer adds, an empty prompt the one that begins a text.

        Raises:
            RequestError: where the template refuses the messages, or their size the context, or
                nothing is there to be continued.
        """
        match request.prompt:
            case None:
                # Templates and what prepares their values are slow, too, and other prompts wait.
                self._check_num_characters(count_characters(request.messages))
                text = self._model.chat_template.render(request.messages)
                return self._encode(text, add_special_tokens=False)
            case str(text):
                return self._encode(text, add_special_tokens=True) or self._begin()
            case token_ids:
                return list(token_ids) or self._begin()

    def count(self, request: GenerateRequest) -> int:
        """The number of tokens of a request's prompt, though it leave no room for an answer.

        Raises:
            RequestError: as `tokenize`, and where the model does not know a token.
            GenerationFailedError: where the template gives an empty prompt.
        """
        prompt = self.tokenize(request)
        self._check_prompt(prompt)
        return len(prompt)

    def _encode(self, text: str, add_special_tokens: bool) -> list[int]:
        self._check_size(text)
        token_ids: list[int] = self._model.tokenizer.encode(
            text, add_special_tokens=add_special_tokens
        )
        return token_ids

    def _begin(self) -> list[int]:
        if self._model.begin_id is None:
            raise RequestError("The prompt is empty, and no token of the model begins a text.")
        return [self._model.begin_id]

    def _check_size(self, text: str) -> None:
        """Refuse by its size what cannot fit: megabytes take seconds to tokenize, others wait.

        A token holds at most the bytes of the longest one, times what normalisation may shrink.

        Raises:
            ContextLengthError: where no tokenizer could make it fit.
            RequestError: where it is no text.
        """
        try:
            num_bytes = len(text.encode())
        except UnicodeEncodeError:  # JSON can spell it
            raise RequestError("The input has half a character: a lone surrogate.") from None
        self._check_num_characters(num_bytes)

    def _check_num_characters(self, num_characters: int) -> None:
        """Refuse so many characters, or bytes, where no tokenizer could make them fit.

        Raises:
            ContextLengthError: where there are too many.
        """
        num_tokens = num_characters // (self._model.longest_token_bytes * MAX_SHRINKING)
        if num_tokens >= self._model.context_length:
            raise self._make_context_error(num_tokens)

    def make_generation(
        self, request: GenerateRequest, prompt: list[int], deadline_s: float, limit_s: float
    ) -> Generation:
        """A generation whose every token id is one of the model's.

        Raises:
            RequestError: where it cannot run.
            GenerationFailedError: where the template gives an empty prompt.
        """
        room = self._model.context_length - len(prompt)
        if room < 1:
            raise self._make_context_error(len(prompt))
        self._check_bias(request)
        self._check_prompt(prompt)
        detokenizer = Detokenizer(self._model.vocabulary, self._model.special_ids)
        return Generation(
            generation_id=request.generation_id,
            prompt=prompt,
            params=SequenceParams(request.sampling, request.top_logprobs),
            max_tokens=room if request.max_tokens is None else min(request.max_tokens, room),
            output=OutputText(detokenizer, StopStrings(request.stop)),
            deadline_s=deadline_s,
            limit_s=limit_s,
        )

    def _make_context_error(self, num_tokens: int) -> ContextLengthError:
        model = self._model
        return ContextLengthError(num_tokens, model.context_length, model.is_memory_bound)

    def _check_prompt(self, prompt: list[int]) -> None:
        """Find ids beyond the model's: MLX reads whatever lies there, without an error."""
        if not prompt:
            raise GenerationFailedError("The model's chat template gives an empty prompt.")
        num_ids = self._model.num_logits
        for token_id in (min(prompt), max(prompt)):
            if not 0 <= token_id < num_ids:
                raise UnknownTokenError(token_id, num_ids)

    def _check_bias(self, request: GenerateRequest) -> None:
        num_ids = self._model.num_logits
        for token_id, _ in request.sampling.logit_bias:
            if not 0 <= token_id < num_ids:
                raise LogitBiasError(token_id, num_ids)


def count_characters(messages: Sequence[ChatMessage]) -> int:
    """The characters of what was said and called; thoughts may be left out of a prompt."""
    said = sum(
        len(part)
        for message in messages
        for part in to_parts(message.content)
        if isinstance(part, str)
    )
    return said + sum(len(call.arguments) for each in messages for call in each.tool_calls)
