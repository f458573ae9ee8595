"""The body of `POST /v1/chat/completions`: what is accepted, with its ranges; null means absent."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from deployments.wire.base import (
    MAX_COUNT,
    MAX_LOGPROBS,
    MISSING,
    NO_OBJECT,
    UNSUPPORTED,
    Array,
    CallId,
    JsonObject,
    Label,
    Metadata,
    SamplingFields,
    WireModel,
    check_total,
    list_sent,
)
from deployments.wire.content import Content, FunctionOutput
from deployments.wire.tools import AnswerFormat, ToolChoice, Tools

# Keys that would change the answer and that other routes or older APIs call so.
OTHER_NAMES = {
    "input": "messages",
    "prompt": "messages",
    "instructions": "messages",
    "max_output_tokens": "max_completion_tokens",
    "max_new_tokens": "max_completion_tokens",
    "n_predict": "max_completion_tokens",
    "num_predict": "max_completion_tokens",
    "text": "response_format",
    "functions": "tools",
    "function_call": "tool_choice",
    "reasoning": "reasoning_effort",
}

# Keys that this route cannot honour; the values beside them change nothing.
NOT_SERVED: dict[str, tuple[Any, ...]] = {
    "moderation": (),
    "previous_response_id": (),
    "conversation": (),
    "background": (False,),
    "truncation": ("disabled",),
    "max_tool_calls": (),
    "echo": (False,),
    "suffix": ("",),
    # Other servers' ways to change the prompt.
    "chat_template": (),
}

# Accepted without effect; the reply's header `x-antiphon-ignored` lists those that were sent.
WITHOUT_EFFECT = (
    "metadata",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning_effort",
    "safety_identifier",
    "service_tier",
    "user",
    "verbosity",
)


# ── messages ─────────────────────────────────────────────────────────────────────────────────────

Role = Literal["system", "developer", "user", "assistant", "tool"]


def refuse_function_role(role: object) -> object:
    """Refuse what came before `tool`.

    Raises:
        PydanticCustomError: where the role is `function`.
    """
    if role == "function":
        raise PydanticCustomError(
            UNSUPPORTED, "'function' is no longer served; send the role 'tool' and a tool_call_id"
        )
    return role


def refuse_function_call(call: object) -> object:
    """Refuse what came before `tool_calls`.

    Raises:
        PydanticCustomError: where there is such a call.
    """
    if call is not None:
        raise PydanticCustomError(UNSUPPORTED, "it is no longer served; send tool_calls")
    return call


def refuse_audio(audio: object) -> object:
    """Refuse an earlier answer that was spoken: this server has none of them.

    Raises:
        PydanticCustomError: where there is one.
    """
    if audio is not None:
        raise PydanticCustomError(
            UNSUPPORTED, "this server keeps no audio; send its transcript as content"
        )
    return audio


class SystemMessage(WireModel):
    """What rules the conversation."""

    role: Literal["system", "developer"]
    content: Content


class UserMessage(WireModel):
    """What a user said."""

    role: Literal["user"]
    content: Content


class SentFunction(WireModel):
    """A function that was called. Its arguments may be broken: a cut answer has such."""

    name: Annotated[str, Field(min_length=1, max_length=512)]
    arguments: str


class SentCall(WireModel):
    """A call that the assistant made; its `type` may be left out."""

    id: CallId
    type: Literal["function"] | None = None
    function: SentFunction


class AssistantMessage(WireModel):
    """What the model answered. `reasoning` is another name of `reasoning_content`.

    The content may be absent where there is a call, a refusal or a thought.
    """

    role: Literal["assistant"]
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: Array[SentCall] | None = None
    function_call: Annotated[Any, AfterValidator(refuse_function_call)] = None
    audio: Annotated[Any, AfterValidator(refuse_audio)] = None
    content: Content | None = Field(None, validate_default=True)

    @field_validator("content", mode="after")
    @classmethod
    def check_says_something(cls, content: Any, info: ValidationInfo) -> Any:
        others = ("refusal", "reasoning_content", "reasoning", "tool_calls")
        if content is None and not any(info.data.get(name) for name in others):
            raise PydanticCustomError(MISSING, "a message without calls must have a content")
        return content

    @property
    def thought(self) -> str:
        return self.reasoning_content or self.reasoning or ""


class ToolMessage(WireModel):
    """What the caller's function gave."""

    role: Literal["tool"]
    tool_call_id: CallId
    content: FunctionOutput


class OtherMessage(WireModel):
    """A message of no role that is known: it is always refused."""

    role: Annotated[Role, BeforeValidator(refuse_function_role)]


def name_role(value: object) -> str:
    """The branch of a message."""
    if isinstance(value, BaseModel):
        return f"<{getattr(value, 'role', None)}>"
    if not isinstance(value, dict):
        return NO_OBJECT
    match value.get("role"):
        case "system" | "developer":
            return "<system>"
        case "user" | "assistant" | "tool" as role:
            return f"<{role}>"
        case _:
            return "<other>"


Message = Annotated[
    Annotated[SystemMessage, Tag("<system>")]
    | Annotated[UserMessage, Tag("<user>")]
    | Annotated[AssistantMessage, Tag("<assistant>")]
    | Annotated[ToolMessage, Tag("<tool>")]
    | Annotated[OtherMessage, Tag("<other>")],
    Discriminator(name_role),
]


# ── the request ──────────────────────────────────────────────────────────────────────────────────


class StreamOptions(WireModel):
    """`stream_options`."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class StreamFields(SamplingFields):
    """What the bodies of Chat Completions and of Completions share."""

    model: str = Field(min_length=1, max_length=256)
    max_tokens: int | None = Field(None, ge=1, le=MAX_COUNT)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: Label | None = None

    @property
    def streams_usage(self) -> bool:
        """Whether the stream is to end with a chunk that counts the tokens."""
        return self.stream_options is not None and self.stream_options.include_usage is True


class ChatCompletionRequest(StreamFields):
    """What this server takes of a request. `max_completion_tokens` beats the older `max_tokens`."""

    messages: Annotated[Array[Message], BeforeValidator(check_total)]
    max_completion_tokens: int | None = Field(None, ge=1, le=MAX_COUNT)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    tools: Tools | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: AnswerFormat | None = None
    reasoning_effort: Label | None = None
    metadata: Metadata | None = None
    store: bool | None = None
    service_tier: Label | None = None
    prediction: JsonObject | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    safety_identifier: Label | None = None
    prompt_cache_key: Label | None = None
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: Label | None = None

    @field_validator("top_logprobs", mode="after")
    @classmethod
    def check_logprobs(cls, number: int | None, info: ValidationInfo) -> int | None:
        if number is not None and info.data.get("logprobs") is not True:
            raise PydanticCustomError(UNSUPPORTED, "it needs 'logprobs': true beside it")
        return number

    @property
    def num_logprobs(self) -> int | None:
        """Alternatives to tell with each token's log probability; None tells neither."""
        return (self.top_logprobs or 0) if self.logprobs else None


def list_ignored(body: Mapping[str, Any]) -> list[str]:
    """The keys of a checked body that have no effect, whatever the model."""
    ignored = list_sent(body, WITHOUT_EFFECT)
    if body.get("store"):  # false is what happens
        ignored.append("store")
    if any(message.get("name") is not None for message in body["messages"]):
        ignored.append("messages.name")
    if len(list_sent(body, ("max_tokens", "max_completion_tokens"))) == 2:
        ignored.append("max_tokens")
    return [*ignored, *list_ignored_options(body)]


def list_ignored_options(body: Mapping[str, Any]) -> list[str]:
    """What of `stream_options` has no effect."""
    options = body.get("stream_options")
    if not options:
        return []
    if not body.get("stream"):
        return ["stream_options"]
    return ["stream_options.include_obfuscation"] if options.get("include_obfuscation") else []
