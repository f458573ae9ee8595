"""The whole contract between the engine and its callers: frozen values, safe to send anywhere."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Role = Literal["system", "user", "assistant", "tool"]
MediaKind = Literal["image", "video", "audio"]
ToolMode = Literal["auto", "none", "required", "named"]
FinishReason = Literal["stop", "length", "abort"]


@dataclass(frozen=True, slots=True)
class Media:
    """A picture, a film or a sound in a turn: `source` is a URL, a data URI or base64 data.

    `detail` is OpenAI's for pictures, and the format of a sound.
    """

    kind: MediaKind
    source: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the assistant made; `arguments` is the text of a JSON object, if it was well."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn of a conversation as the chat template sees it.

    Only the user's turns have media, in their place among the texts; only the assistant's have
    `reasoning` and `tool_calls`; only a tool's has the `call_id` of the call that it answers.
    """

    role: Role
    content: str | tuple[str | Media, ...]
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A function that the model may call; `parameters` is a JSON schema of an object."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    is_strict: bool = False


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """The answer is to be JSON: of this schema, or any object where `schema` is None."""

    schema: dict[str, Any] | None = None
    name: str | None = None
    description: str | None = None
    is_strict: bool = False


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is picked; the defaults draw from the model's own distribution.

    Penalties look at the generated text alone, never at the prompt (OpenAI's rule). What each
    number does, and in which order, stands in `engine.sampling`.
    """

    temperature: float = 1.0
    """0 is greedy."""
    top_p: float = 1.0
    """1 keeps every token."""
    top_k: int = 0
    """0 keeps every token."""
    min_p: float = 0.0
    """0 keeps every token."""
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    """Token ids, each once, and what is added to their logits."""
    seed: int | None = None
    """The same seed draws the same tokens, alone and in any batch; None is a new one each time."""


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One generation; `max_tokens` None means the rest of the model's context.

    It continues either `messages`, through the chat template, or `prompt` as it is.
    """

    generation_id: str
    messages: tuple[ChatMessage, ...]
    sampling: SamplingParams
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    """Texts, none empty, before which the output ends."""
    top_logprobs: int | None = None
    """How many alternatives to tell with each token's log probability; None tells neither."""
    prompt: str | tuple[int, ...] | None = None
    """A raw text, or token ids; an empty one starts from the token that begins a text."""
    tools: tuple[FunctionTool, ...] = ()
    """What the prompt shows: of a choice that narrows them, only the chosen ones."""
    tool_choice: ToolMode = "auto"
    """`named` means the one tool in `tools`."""
    max_tool_calls: int | None = None
    """Calls after which the answer ends; 1 where they may not be parallel."""
    output_format: JsonFormat | None = None


@dataclass(frozen=True, slots=True)
class GenerationStarted:
    """First event: the prompt is tokenized and the generation has a place in the queue."""

    prompt_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token by its bytes, and the natural logarithm of its probability."""

    token: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class SampledLogprob:
    """The model's own view of a sampled token: before temperature, penalties and masks.

    `top` holds the likeliest tokens at its place, the likeliest first.
    """

    sampled: TokenLogprob
    top: tuple[TokenLogprob, ...]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """New text, never empty; `num_tokens` of the output are covered by the text up to here.

    `logprobs` has one element a token that this text completes, where they were asked for.
    """

    text: str
    num_tokens: int
    logprobs: tuple[SampledLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """New text of the model's thinking, never empty; `num_tokens` as in `TextDelta`."""

    text: str
    num_tokens: int


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """The model calls a declared tool. Calls come one after the other."""

    name: str
    num_tokens: int


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """New text of the arguments of the call that started last, never empty."""

    arguments: str
    num_tokens: int


@dataclass(frozen=True, slots=True)
class ToolCallFinished:
    """The arguments of the call that started last are whole."""

    num_tokens: int


@dataclass(frozen=True, slots=True)
class GenerationFinished:
    """Last event; `output_tokens` counts every sampled token, an end-of-text token included."""

    reason: FinishReason
    output_tokens: int


EngineEvent = (
    GenerationStarted
    | TextDelta
    | ReasoningDelta
    | ToolCallStarted
    | ToolCallDelta
    | ToolCallFinished
    | GenerationFinished
)


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
    media: tuple[MediaKind, ...] = ()
    """What it can look at or listen to beside text."""
    takes_tools: bool = False
    """Whether its chat template shows the model the tools of a request."""
    can_constrain: bool = False
    """Whether its output can be bound to a schema."""


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Counters since start, and the state of this moment (`is_alive` to `cache_budget_bytes`).

    `refused` counts requests that found the queue full. `steps` counts turns of the engine's loop,
    `step_s` the seconds they took. `max_abort_steps` is the largest number of turns that began
    between an abort and the moment its row was freed.
    """

    engine_id: str
    """New at each start, so that counters which begin again at 0 can be told apart."""
    is_alive: bool
    running: int = 0
    waiting: int = 0
    cache_bytes: int = 0
    cache_budget_bytes: int = 0
    admitted: int = 0
    refused: int = 0
    finished_by_stop: int = 0
    finished_by_length: int = 0
    aborted: int = 0
    failed: int = 0
    preempted: int = 0
    steps: int = 0
    step_s: float = 0.0
    prompt_tokens: int = 0
    output_tokens: int = 0
    max_abort_steps: int = 0


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

    async def count_tokens(self, request: GenerateRequest) -> int:
        """The tokens of a request's prompt, as `GenerationStarted` would count them.

        Raises:
            EngineError: where the request cannot run for what its messages are.
        """
        ...

    def abort(self, generation_id: str) -> bool:
        """Stop a generation; its stream ends with reason `abort`. False where none has that id."""
        ...
