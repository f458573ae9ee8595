"""The events of a response as it grows: what every protocol's stream is written from."""

from dataclasses import dataclass

from deployments.resource.response import ContentPart, OutputItem, Response
from engine.types import SampledLogprob


@dataclass(frozen=True, slots=True)
class ResponseCreated:
    """The response exists; nothing of its output does."""

    response: Response


@dataclass(frozen=True, slots=True)
class ResponseInProgress:
    """The response as it stands: once after its creation, and again after a long silence."""

    response: Response


@dataclass(frozen=True, slots=True)
class ItemAdded:
    """A new item of the output begins."""

    output_index: int
    item: OutputItem


@dataclass(frozen=True, slots=True)
class PartAdded:
    """A new content part of an item begins."""

    item_id: str
    output_index: int
    content_index: int
    part: ContentPart


@dataclass(frozen=True, slots=True)
class OutputTextDelta:
    """New text of a message's part, never empty."""

    item_id: str
    output_index: int
    content_index: int
    delta: str
    logprobs: tuple[SampledLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputTextDone:
    """The whole text of a message's part."""

    item_id: str
    output_index: int
    content_index: int
    text: str
    logprobs: tuple[SampledLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class ReasoningTextDelta:
    """New text of a reasoning item's part, never empty."""

    item_id: str
    output_index: int
    content_index: int
    delta: str


@dataclass(frozen=True, slots=True)
class ReasoningTextDone:
    """The whole text of a reasoning item's part."""

    item_id: str
    output_index: int
    content_index: int
    text: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """New text of a call's arguments, never empty."""

    item_id: str
    output_index: int
    delta: str


@dataclass(frozen=True, slots=True)
class ArgumentsDone:
    """The whole arguments of a call."""

    item_id: str
    output_index: int
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class PartDone:
    """A part is whole."""

    item_id: str
    output_index: int
    content_index: int
    part: ContentPart


@dataclass(frozen=True, slots=True)
class ItemDone:
    """An item is whole."""

    output_index: int
    item: OutputItem


@dataclass(frozen=True, slots=True)
class ResponseEnded:
    """The terminal event: exactly one, last. The response's status says how it ended."""

    response: Response


StreamEvent = (
    ResponseCreated
    | ResponseInProgress
    | ItemAdded
    | PartAdded
    | OutputTextDelta
    | OutputTextDone
    | ReasoningTextDelta
    | ReasoningTextDone
    | ArgumentsDelta
    | ArgumentsDone
    | PartDone
    | ItemDone
    | ResponseEnded
)
