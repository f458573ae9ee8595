"""The item of a response that grows now: one class a kind, each with what opens and closes it."""

from dataclasses import dataclass, field

from deployments.resource.events import (
    ArgumentsDelta,
    ArgumentsDone,
    ItemAdded,
    ItemDone,
    OutputTextDelta,
    OutputTextDone,
    PartAdded,
    PartDone,
    ReasoningTextDelta,
    ReasoningTextDone,
    StreamEvent,
)
from deployments.resource.response import (
    FunctionCallItem,
    ItemStatus,
    MessageItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
)
from engine.types import SampledLogprob


@dataclass(slots=True)
class OpenMessage:
    """A message with one part."""

    item_id: str
    output_index: int
    _texts: list[str] = field(default_factory=list)
    _logprobs: list[SampledLogprob] = field(default_factory=list)

    def open(self) -> list[StreamEvent]:
        return [
            ItemAdded(self.output_index, MessageItem(self.item_id, "in_progress", ())),
            PartAdded(self.item_id, self.output_index, 0, OutputText("")),
        ]

    def add(self, text: str, logprobs: tuple[SampledLogprob, ...]) -> StreamEvent:
        self._texts.append(text)
        self._logprobs += logprobs
        return OutputTextDelta(self.item_id, self.output_index, 0, text, logprobs)

    def close(self, status: ItemStatus) -> list[StreamEvent]:
        item = self.item(status)
        (part,) = item.content
        return [
            OutputTextDone(self.item_id, self.output_index, 0, part.text, part.logprobs),
            PartDone(self.item_id, self.output_index, 0, part),
            ItemDone(self.output_index, item),
        ]

    def item(self, status: ItemStatus) -> MessageItem:
        part = OutputText("".join(self._texts), tuple(self._logprobs))
        return MessageItem(self.item_id, status, (part,))


@dataclass(slots=True)
class OpenReasoning:
    """A reasoning item with one part."""

    item_id: str
    output_index: int
    _texts: list[str] = field(default_factory=list)

    def open(self) -> list[StreamEvent]:
        return [
            ItemAdded(self.output_index, ReasoningItem(self.item_id, "in_progress", ())),
            PartAdded(self.item_id, self.output_index, 0, ReasoningText("")),
        ]

    def add(self, text: str) -> StreamEvent:
        self._texts.append(text)
        return ReasoningTextDelta(self.item_id, self.output_index, 0, text)

    def close(self, status: ItemStatus) -> list[StreamEvent]:
        item = self.item(status)
        (part,) = item.content
        return [
            ReasoningTextDone(self.item_id, self.output_index, 0, part.text),
            PartDone(self.item_id, self.output_index, 0, part),
            ItemDone(self.output_index, item),
        ]

    def item(self, status: ItemStatus) -> ReasoningItem:
        return ReasoningItem(self.item_id, status, (ReasoningText("".join(self._texts)),))


@dataclass(slots=True)
class OpenCall:
    """A call whose arguments come."""

    item_id: str
    output_index: int
    call_id: str
    name: str
    _arguments: list[str] = field(default_factory=list)

    def open(self) -> list[StreamEvent]:
        return [ItemAdded(self.output_index, self.item("in_progress"))]

    def add(self, arguments: str) -> StreamEvent:
        self._arguments.append(arguments)
        return ArgumentsDelta(self.item_id, self.output_index, arguments)

    def close(self, status: ItemStatus) -> list[StreamEvent]:
        """A whole call without arguments has an empty object: clients parse what they are given."""
        given = [self.add("{}")] if status == "completed" and not self._arguments else []
        item = self.item(status)
        return [
            *given,
            ArgumentsDone(self.item_id, self.output_index, self.name, item.arguments),
            ItemDone(self.output_index, item),
        ]

    def item(self, status: ItemStatus) -> FunctionCallItem:
        return FunctionCallItem(
            self.item_id, status, self.call_id, self.name, "".join(self._arguments)
        )


OpenItem = OpenMessage | OpenReasoning | OpenCall
