"""The body of `POST /v1/responses`: what is accepted, with its ranges; null means absent."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
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
    UNSUPPORTED,
    Array,
    Label,
    Metadata,
    SamplingFields,
    WireModel,
    check_total,
    list_sent,
    name_form,
)
from deployments.wire.responses_items import InputItem
from deployments.wire.tools import AnswerFormat, ToolChoice, Tools

# Keys that would change the answer and that other routes or older APIs call so: OpenAI's own
# servers ignore them silently, and their users wonder.
OTHER_NAMES = {
    "response_format": "text.format",
    "messages": "input",
    "prompt": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "max_new_tokens": "max_output_tokens",
    "verbosity": "text.verbosity",
    "functions": "tools",
    "function_call": "tool_choice",
    "reasoning_effort": "reasoning.effort",
    "logprobs": "top_logprobs",
    "n_predict": "max_output_tokens",
    "num_predict": "max_output_tokens",
}

# Keys of this API that this server cannot honour; the values beside them change nothing.
NOT_SERVED: dict[str, tuple[Any, ...]] = {
    "background": (False,),
    "truncation": ("disabled",),
    "context_management": ([],),
    "moderation": (),
    "echo": (False,),
    "suffix": ("",),
}

# Accepted without effect; the reply's header `x-antiphon-ignored` lists those that were sent.
WITHOUT_EFFECT = (
    "access_programs",
    "background_options",
    "image",
    "service_tier",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "stream_options",
    "user",
    "safety_identifier",
)

INNER_WITHOUT_EFFECT = {
    "reasoning": ("context", "effort", "generate_summary", "mode", "summary"),
    "text": ("verbosity",),
}

LOGPROBS, ENCRYPTED = "message.output_text.logprobs", "reasoning.encrypted_content"


class TextSettings(WireModel):
    """`text`."""

    format: AnswerFormat | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ReasoningSettings(WireModel):
    """`reasoning`, echoed as sent."""

    effort: Label | None = None
    summary: Label | None = None
    generate_summary: Label | None = None


KeptId = Annotated[str, Field(min_length=1, max_length=512)]  # of a response


def check_has_route(conversation_id: str) -> str:
    """An id that a client may make up, and that must then be the name of a route.

    Raises:
        ValueError: where it would be another route's, or none's.
    """
    if "/" in conversation_id or conversation_id in (".", ".."):
        raise ValueError("it must not have a slash, nor be '.' or '..'")
    return conversation_id


ConversationId = Annotated[KeptId, AfterValidator(check_has_route)]


class ConversationReference(WireModel):
    """`conversation` as an object."""

    id: ConversationId


def name_conversation(value: object) -> str:
    """The branch of a conversation that is named by its id alone or in an object."""
    return "<text>" if isinstance(value, str) else "<object>"


class CreateResponse(SamplingFields):
    """What this server takes of a request."""

    model: str = Field(min_length=1, max_length=256)
    input: (
        Annotated[
            Annotated[str, Tag("<text>")]
            | Annotated[Array[InputItem], BeforeValidator(check_total), Tag("<array>")],
            Discriminator(name_form),
        ]
        | None
    ) = None
    previous_response_id: KeptId | None = None
    conversation: (
        Annotated[
            Annotated[ConversationId, Tag("<text>")]
            | Annotated[ConversationReference, Tag("<object>")],
            Discriminator(name_conversation),
        ]
        | None
    ) = None
    instructions: str | None = None
    include: list[Literal["message.output_text.logprobs", "reasoning.encrypted_content"]] | None = (
        Field(None, max_length=16, fail_fast=True)
    )
    max_output_tokens: int | None = Field(None, ge=1, le=MAX_COUNT)
    max_tool_calls: int | None = Field(None, ge=1, le=MAX_COUNT)
    metadata: Metadata | None = None
    parallel_tool_calls: bool | None = None
    prompt_cache_key: Label | None = None
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: Label | None = None
    reasoning: ReasoningSettings | None = None
    safety_identifier: Label | None = None
    service_tier: Label | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    text: TextSettings | None = None
    tool_choice: ToolChoice | None = None
    tools: Tools | None = None
    top_logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    user: Label | None = None

    @field_validator("conversation", mode="after")
    @classmethod
    def check_is_no_chain(cls, conversation: Any, info: ValidationInfo) -> Any:
        """A response goes on from one thing (RA): which comes first would be anyone's guess."""
        if conversation is not None and info.data.get("previous_response_id") is not None:
            raise PydanticCustomError(
                UNSUPPORTED, "it cannot stand beside 'previous_response_id'; send one of the two"
            )
        return conversation

    @property
    def conversation_id(self) -> str | None:
        """The id of the conversation, however it was spelled."""
        if isinstance(self.conversation, ConversationReference):
            return self.conversation.id
        return self.conversation

    @property
    def num_logprobs(self) -> int | None:
        """Alternatives to tell with each token's log probability; None tells neither."""
        is_asked = bool(self.top_logprobs) or LOGPROBS in (self.include or ())
        return (self.top_logprobs or 0) if is_asked else None


def list_ignored(body: Mapping[str, Any]) -> list[str]:
    """The keys of a checked body that have no effect, whatever the model."""
    ignored = list_sent(body, WITHOUT_EFFECT)
    for name in ("reasoning", "text"):
        inner = body.get(name)
        if isinstance(inner, dict):
            ignored += [f"{name}.{key}" for key in list_sent(inner, INNER_WITHOUT_EFFECT[name])]
    return (
        [*ignored, f"include.{ENCRYPTED}"] if ENCRYPTED in (body.get("include") or ()) else ignored
    )
