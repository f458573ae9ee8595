"""What a response is inside, before any protocol spells it: the one source of every reply.

The stream, the final object and the stored record are all made of these values.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from engine.types import SampledLogprob

ResponseStatus = Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]


@dataclass(frozen=True, slots=True)
class OutputText:
    """A content part of an assistant's message.

    `logprobs` has one element a token whose text stands here, where they were asked for.
    """

    text: str
    logprobs: tuple[SampledLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class ReasoningText:
    """The content part of a reasoning item."""

    text: str


ContentPart = OutputText | ReasoningText


@dataclass(frozen=True, slots=True)
class MessageItem:
    """An assistant's message."""

    item_id: str
    status: ItemStatus
    content: tuple[OutputText, ...]
    kind: Literal["message"] = "message"


@dataclass(frozen=True, slots=True)
class ReasoningItem:
    """What the model thought before it went on."""

    item_id: str
    status: ItemStatus
    content: tuple[ReasoningText, ...]
    kind: Literal["reasoning"] = "reasoning"


@dataclass(frozen=True, slots=True)
class FunctionCallItem:
    """A call that the caller is asked to make; `arguments` is the text of a JSON object.

    It may be less where the status is not `completed`.
    """

    item_id: str
    status: ItemStatus
    call_id: str
    name: str
    arguments: str
    kind: Literal["function_call"] = "function_call"


OutputItem = Annotated[MessageItem | ReasoningItem | FunctionCallItem, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True)
class GivenItem:
    """An item that came with a request; `text` is its JSON in the contract's spelling."""

    item_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a response: `cached_tokens` of the input, `reasoning_tokens` of the output."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ResponseFailure:
    """Why a response failed, as its caller may know it; `is_temporary`: a retry may help.

    `code` is for those who do not stream: a response itself only knows `server_error`.
    """

    code: str
    message: str
    is_temporary: bool = False


@dataclass(frozen=True, slots=True)
class Response:
    """One response at one moment; times are whole seconds since the Unix epoch."""

    response_id: str
    created_at: int
    status: ResponseStatus
    model: str
    output: tuple[OutputItem, ...] = ()
    usage: Usage | None = None
    completed_at: int | None = None
    failure: ResponseFailure | None = None
    incomplete_reason: Literal["max_output_tokens"] | None = None

    @property
    def output_text(self) -> str:
        """The texts of all messages."""
        messages = (item for item in self.output if item.kind == "message")
        return "".join(part.text for message in messages for part in message.content)


@dataclass(frozen=True, slots=True)
class RequestEcho:
    """What a response repeats of its request: what was sent, or the default in force.

    `tools`, `tool_choice`, `text_format` and `reasoning` are JSON in the contract's flat shape.
    """

    temperature: float
    top_p: float
    is_stored: bool
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    instructions: str | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    metadata: dict[str, str] | None = None
    parallel_tool_calls: bool = True
    previous_response_id: str | None = None
    conversation_id: str | None = None
    prompt_cache_key: str | None = None
    reasoning: dict[str, Any] | None = None
    safety_identifier: str | None = None
    service_tier: str = "default"
    text_format: dict[str, Any] = field(default_factory=lambda: {"type": "text"})
    tool_choice: str | dict[str, Any] = "auto"
    tools: tuple[dict[str, Any], ...] = ()
    top_logprobs: int = 0
    user: str | None = None
    verbosity: str | None = None


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response as it is kept."""

    response: Response
    echo: RequestEcho
