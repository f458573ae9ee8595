"""A third judge: it replays a stream by the protocol's rules; each event must fit what is there.

The schemas see one event at a time, and clients forgive much. This one minds ids, indices and
order: what is announced is finished, and a text is what its deltas add up to.
"""

import copy
from collections.abc import Iterator

from tests.support.transcripts import Event

STATUSES = {
    "response.completed": {"completed"},
    "response.incomplete": {"incomplete", "cancelled"},
    "response.failed": {"failed"},
}


class Replay:
    """The response that the events so far amount to.

    Every method raises AssertionError, or KeyError or IndexError, where an event does not fit.
    """

    def __init__(self) -> None:
        self.num_events = 0
        self.response: Event = {}
        self.has_ended = False
        self._open: str | None = None

    @property
    def output(self) -> list[Event]:
        output: list[Event] = self.response["output"]
        return output

    def feed(self, event: Event) -> None:
        assert not self.has_ended, "an event after the terminal one"
        assert event["sequence_number"] == self.num_events
        kind = event["type"]
        assert (self.num_events == 0) == (kind == "response.created")
        self.num_events += 1
        match kind.removeprefix("response.").split("."):
            case ["created"]:
                assert event["response"]["output"] == []
                self.response = copy.deepcopy(event["response"])
            case ["in_progress"]:
                assert event["response"] == self.snapshot()
            case ["output_item", "added"]:
                self._add_item(event)
            case ["output_item", "done"]:
                self._finish_item(event)
            case ["content_part", "added"]:
                self._add_part(event)
            case ["content_part", "done"]:
                assert event["part"] == self._part(event)
            case ["function_call_arguments", step]:
                self._take(step, self._item(event), "arguments", event)
            case ["output_text" | "reasoning_text", step]:
                assert self._part(event)["type"] == kind.split(".")[1]
                self._take(step, self._part(event), "text", event)
            case _:
                self._end(event)

    def snapshot(self) -> Event:
        """The response as a heartbeat says it now."""
        return {**copy.deepcopy(self.response), "output_text": self._output_text()}

    def _add_item(self, event: Event) -> None:
        item = event["item"]
        assert self._open is None, "two items at once"
        assert event["output_index"] == len(self.output)
        assert item["id"] not in [other["id"] for other in self.output]
        assert item["status"] == "in_progress"
        assert not item.get("content")
        assert not item.get("arguments")
        self.output.append(copy.deepcopy(item))
        self._open = item["id"]

    def _finish_item(self, event: Event) -> None:
        item = self._item({**event, "item_id": event["item"]["id"]})
        assert event["item"]["status"] in {"completed", "incomplete"}
        item["status"] = event["item"]["status"]
        assert event["item"] == item
        self._open = None

    def _add_part(self, event: Event) -> None:
        content = self._item(event)["content"]
        assert event["content_index"] == len(content)
        assert event["part"]["text"] == ""
        content.append(copy.deepcopy(event["part"]))

    def _take(self, step: str, holder: Event, member: str, event: Event) -> None:
        """A delta for a text or for arguments, or the whole at the end, with its logprobs."""
        if step == "delta":
            assert event["delta"], "an empty delta"
            holder[member] += event["delta"]
            holder.get("logprobs", []).extend(event.get("logprobs", []))
        else:
            assert step == "done"
            assert event[member] == holder[member]
            assert event.get("logprobs", []) == holder.get("logprobs", [])
            assert event.get("name") == holder.get("name")

    def _end(self, event: Event) -> None:
        final = event["response"]
        assert final["status"] in STATUSES[event["type"]]
        assert self._open is None, "an item is left open"
        assert final["output_text"] == self._output_text()
        changed = {"status", "output_text", "usage", "completed_at", "error", "incomplete_details"}
        for name in self.response.keys() | final.keys():
            assert name in changed or final[name] == self.response[name], name
        self.has_ended = True

    def _item(self, event: Event) -> Event:
        item = self.output[event["output_index"]]
        assert item["id"] == event["item_id"] == self._open
        return item

    def _part(self, event: Event) -> Event:
        part: Event = self._item(event)["content"][event["content_index"]]
        return part

    def _output_text(self) -> str:
        return "".join(text_of(item) for item in self.output if item["type"] == "message")


def check_stream(events: list[Event]) -> None:
    """Replay a whole stream.

    Raises:
        AssertionError, KeyError, IndexError: where an event does not fit, or where none ends it.
    """
    replay = Replay()
    for event in events:
        replay.feed(event)
    assert replay.has_ended


def with_heartbeats(events: list[Event]) -> Iterator[Event]:
    """The stream as it would be with a silence after each of its events, numbered anew."""
    replay, number = Replay(), 0
    for event in events:
        replay.feed(event)
        yield {**event, "sequence_number": number}
        number += 1
        if event["type"] != "response.created" and not replay.has_ended:
            yield {
                "type": "response.in_progress",
                "sequence_number": number,
                "response": replay.snapshot(),
            }
            number += 1


def text_of(item: Event) -> str:
    """What an item of the output says: its arguments, or its parts' texts."""
    arguments: str = item.get("arguments", "")
    return arguments + "".join(part["text"] for part in item.get("content", []))
