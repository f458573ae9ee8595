"""The golden transcripts, as every oracle reads them: all that stand in the folder."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Event = dict[str, Any]
Mutation = Callable[[list[Event]], object]

FOLDER = Path(__file__).parents[1] / "golden" / "transcripts"
NAMES = sorted(path.stem for path in FOLDER.glob("*.sse"))


def read_transcript(name: str) -> bytes:
    return (FOLDER / f"{name}.sse").read_bytes()


def read_events(name: str) -> list[Event]:
    """The data of each event of a transcript, after a look at how it is laid out."""
    *frames, done, end = read_transcript(name).decode().split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    events = []
    for frame in frames:
        kind, data = frame.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert kind == f"event: {event['type']}"
        events.append(event)
    return events


def write_events(events: Iterable[Event]) -> bytes:
    """A stream of these events, in the bytes of a transcript."""
    frames = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return ("".join(frames) + "data: [DONE]\n\n").encode()


def change(name: str, mutate: Mutation) -> list[Event]:
    """The events of a transcript after a change in memory, which must be one."""
    events = read_events(name)
    mutate(events)
    assert json.dumps(events) != json.dumps(read_events(name)), "nothing was changed"
    return events
