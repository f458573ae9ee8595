"""The body of `POST /v1/chat/completions`: what is accepted, with its ranges; null means absent."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from deployments.wire.base import (
    MAX_COUNT,
    MAX_LOGPROBS,
    UNSUPPORTED,
    Array,
    JsonObject,
    Label,
    Metadata,
    SamplingFields,
    WireModel,
    check_total,
    list_sent,
)
from deployments.wire.chat_messages import Message
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
