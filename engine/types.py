"""The whole contract between the engine and its callers: frozen values, safe to send anywhere."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Literal, Protocol

Role = Literal["system", "user", "assistant"]
FinishReason = Literal["stop", "length", "abort"]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn of a conversation as the chat template sees it."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is picked; `temperature` 0 is greedy, `top_p` 1 keeps every token."""

    temperature: float = 1.0
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One generation; `max_tokens` None means the rest of the model's context."""

    generation_id: str
    messages: tuple[ChatMessage, ...]
    sampling: SamplingParams
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class GenerationStarted:
    """First event: the prompt is tokenized and the generation has a place in the queue."""

    prompt_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class TextDelta:
    """New text, never empty; `num_tokens` of the output are covered by the text up to here."""

    text: str
    num_tokens: int


@dataclass(frozen=True, slots=True)
class GenerationFinished:
    """Last event; `output_tokens` counts every sampled token, an end-of-text token included."""

    reason: FinishReason
    output_tokens: int


EngineEvent = GenerationStarted | TextDelta | GenerationFinished


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What a caller may know of a served model."""

    name: str
    aliases: tuple[str, ...]
    created_at: int
    context_length: int
    default_sampling: SamplingParams
    default_max_tokens: int | None
    has_chat_template: bool


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Counters since start, and the state of this moment (`is_alive`, `running`, `waiting`).

    `steps` counts turns of the engine's loop. `max_abort_steps` is the largest number of turns that
    began between an abort and the moment its row was freed.
    """

    is_alive: bool
    running: int
    waiting: int
    admitted: int
    finished: int
    aborted: int
    failed: int
    steps: int
    prompt_tokens: int
    output_tokens: int
    max_abort_steps: int


class Engine(Protocol):
    """The face that the real engine and the scripted one of the protocol tests share."""

    def card(self) -> ModelCard: ...

    def stats(self) -> EngineStats: ...

    def generate(self, request: GenerateRequest) -> AsyncGenerator[tuple[EngineEvent, ...], None]:
        """Yield the events so far, in batches; closing the generator aborts the generation.

        The first batch begins with `GenerationStarted`, the last ends with `GenerationFinished`.

        Raises:
            EngineError: before the first batch where the request cannot run, after it where the
                generation fails.
        """
        ...

    def abort(self, generation_id: str) -> bool:
        """Stop a generation; its stream ends with reason `abort`. False where none has that id."""
        ...
