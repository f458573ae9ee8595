"""The events of a response as it grows: what every protocol's stream is written from."""

from dataclasses import dataclass

from deployments.resource.response import OutputItem, OutputText, Response


@dataclass(frozen=True, slots=True)
class ResponseCreated:
    """The response exists; nothing of its output does."""

    response: Response


@dataclass(frozen=True, slots=True)
class ResponseInProgress:
    """The response as it stands."""

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
    part: OutputText


@dataclass(frozen=True, slots=True)
class OutputTextDelta:
    """New text of a part, never empty."""

    item_id: str
    output_index: int
    content_index: int
    delta: str


@dataclass(frozen=True, slots=True)
class OutputTextDone:
    """The whole text of a part."""

    item_id: str
    output_index: int
    content_index: int
    text: str


@dataclass(frozen=True, slots=True)
class PartDone:
    """A part is whole."""

    item_id: str
    output_index: int
    content_index: int
    part: OutputText


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
    | PartDone
    | ItemDone
    | ResponseEnded
)
