"""The items of a Responses input. Keys that outputs have beside these are tolerated and ignored,
so that `response.output` can be sent back as it is."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from deployments.wire.base import Array, CallId, Label, WireModel, name_type
from deployments.wire.content import Content, FunctionOutput


class OwnItem(WireModel):
    """What all items have that say what they are: an id, if they were sent or shown before.

    It may be anything: only one that the server gave is looked at.
    """

    id: Any = None


class InputMessage(OwnItem):
    """A message; its `type` may be left out."""

    type: Literal["message"] | None = None
    role: Literal["user", "assistant", "system", "developer"]
    content: Content


class FunctionCall(OwnItem):
    """A call that the assistant made. Its arguments may be broken: a cut answer has such."""

    type: Literal["function_call"]
    call_id: CallId
    name: Annotated[str, Field(min_length=1, max_length=512)]
    arguments: str


class FunctionCallOutput(OwnItem):
    """What the caller's function gave."""

    type: Literal["function_call_output"]
    call_id: CallId
    output: FunctionOutput


class ReasoningPart(WireModel):
    """A text that the model thought."""

    type: Literal["reasoning_text", "text", "output_text"]
    text: str


class SummaryPart(WireModel):
    """A summary of what the model thought."""

    type: Literal["summary_text", "text"]
    text: str


class Reasoning(OwnItem):
    """What the model thought before its next turn. What somebody encrypted is ignored."""

    type: Literal["reasoning"]
    content: Array[ReasoningPart] | None = None
    summary: Array[SummaryPart] | None = None

    @property
    def text(self) -> str:
        """The content, or the summary where there is none."""
        content = "\n".join(part.text for part in self.content or ())
        return content or "\n".join(part.text for part in self.summary or ())


class ItemReference(WireModel):
    """An item that the server keeps; its `type` may be left out."""

    type: Literal["item_reference"] | None = None
    id: Label


def name_item(value: object) -> str | None:
    """The branch of an item: OpenAI's clients may leave it out of messages and of references."""
    name = name_type(value)
    if name is not None or not isinstance(value, dict):
        return name
    if value.keys() & {"role", "content"}:
        return "<message>"
    return "<item_reference>" if "id" in value else None


ContentItem = InputMessage | FunctionCall | FunctionCallOutput | Reasoning

InputItem = Annotated[
    Annotated[InputMessage, Tag("<message>")]
    | Annotated[FunctionCall, Tag("<function_call>")]
    | Annotated[FunctionCallOutput, Tag("<function_call_output>")]
    | Annotated[Reasoning, Tag("<reasoning>")]
    | Annotated[ItemReference, Tag("<item_reference>")],
    Discriminator(name_item),
]
