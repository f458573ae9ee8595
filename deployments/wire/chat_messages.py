"""The messages of a chat, by their roles: what is accepted, and by name what no longer is."""

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
    MISSING,
    NO_OBJECT,
    UNSUPPORTED,
    Array,
    CallId,
    WireModel,
)
from deployments.wire.content import Content, FunctionOutput

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
