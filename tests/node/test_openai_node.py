"""openai-node's accumulator before every transcript, in one run of node.

ANTIPHON_REQUIRE_NODE, set by CI where there is a node, turns a client that is not installed from a
reason to skip into a failure.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.replay import text_of, with_heartbeats
from tests.support.transcripts import NAMES, Event, read_events, read_transcript, write_events

HERE = Path(__file__).parent
CLIENT = HERE / "node_modules" / "openai"
PATIENCE_S = 120.0

Edit = Callable[[list[Event]], list[Event]]
each_name = pytest.mark.parametrize("name", NAMES)


def without_ends(events: list[Event]) -> list[Event]:
    """What begins and grows alone: the accumulator must add it up, nothing replaces it."""
    kinds = ("done", "in_progress", "completed", "incomplete", "failed")
    return [event for event in events if event["type"].rpartition(".")[2] not in kinds]


def without_dones(events: list[Event]) -> list[Event]:
    """The same, but with its heartbeats."""
    return [event for event in events[:-1] if not event["type"].endswith(".done")]


def changing(kind: str, **members: Any) -> Edit:
    def edit(events: list[Event]) -> list[Event]:
        assert any(event["type"] == kind for event in events)
        return [{**event, **members} if event["type"] == kind else event for event in events]

    return edit


def leaving_out(kind: str) -> Edit:
    def edit(events: list[Event]) -> list[Event]:
        assert any(event["type"] == kind for event in events)
        return [event for event in events if event["type"] != kind]

    return edit


def with_empty_heartbeats(events: list[Event]) -> list[Event]:
    """Heartbeats that repeat the response as it was at its creation."""
    created = events[0]["response"]
    return [
        {**event, "response": created} if event["type"] == "response.in_progress" else event
        for event in with_heartbeats(events)
    ]


PART, DELTA = "response.content_part.added", "response.output_text.delta"

# What openai-node objects to: a transcript, a change of it, and its words.
OBJECTIONS: dict[str, tuple[str, Edit, str]] = {
    "no response": ("text", leaving_out("response.created"), "expected 'response.created' event"),
    "no item": ("text", leaving_out("response.output_item.added"), "missing output at index 0"),
    "no part": ("text", leaving_out(PART), "missing content at index 0"),
    "no part of reasoning": ("reasoning_alone", leaving_out(PART), "missing content at index 0"),
    "wrong item": ("text", changing(DELTA, output_index=1), "missing output at index 1"),
    "wrong part": ("text", changing(DELTA, content_index=1), "missing content at index 1"),
    "unknown event": ("text", changing(DELTA, type="response.text"), "Unhandled response stream"),
    "empty heartbeats": ("text", with_empty_heartbeats, "missing output at index 0"),
}


def make_streams() -> dict[str, bytes]:
    """Every stream that a test below asks about, by a name."""
    streams = {}
    for name in NAMES:
        events = read_events(name)
        streams[name] = read_transcript(name)
        streams[f"{name}, no ends"] = write_events(without_ends(events))
        with suppress(
            AssertionError, LookupError
        ):  # a stream that breaks the rules has its own test
            beating = list(with_heartbeats(events))
            streams[f"{name}, heartbeats"] = write_events(beating)
            streams[f"{name}, no ends, heartbeats"] = write_events(without_dones(beating))
    for objection, (name, edit, _) in OBJECTIONS.items():
        streams[objection] = write_events(edit(read_events(name)))
    return streams


def require(is_there: bool, what: str) -> None:
    if is_there:
        return
    if os.environ.get("ANTIPHON_REQUIRE_NODE"):
        pytest.fail(f"ANTIPHON_REQUIRE_NODE is set, but {what}")
    pytest.skip(f"{what}: openai-node's accumulator is not asked")


@pytest.fixture(scope="module")
def replies() -> dict[str, dict[str, Any]]:
    """What openai-node made of every stream: its events' types and the response, or an error."""
    node = shutil.which("node")
    require(node is not None, "there is no node")
    require(CLIENT.is_dir(), "openai-node is not installed (`make test` does that, with npm)")
    assert node is not None
    streams = {name: stream.decode() for name, stream in make_streams().items()}
    run = subprocess.run(
        [node, HERE / "replay.mjs"],
        input=json.dumps(streams),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    replies: dict[str, dict[str, Any]] = json.loads(run.stdout)
    return replies


def without_parsed(response: dict[str, Any]) -> dict[str, Any]:
    """The response without what openai-node adds: the members for parsed values."""
    assert response.pop("output_parsed") is None
    for item in response["output"]:
        item.pop("parsed_arguments", None)
        for part in item.get("content", []):
            part.pop("parsed", None)
    return response


def test_the_client_is_the_pinned_one() -> None:
    require(CLIENT.is_dir(), "openai-node is not installed (`make test` does that, with npm)")
    installed = json.loads((CLIENT / "package.json").read_text())
    pinned = json.loads((HERE / "package.json").read_text())
    assert pinned["dependencies"] == {"openai": installed["version"]}


@pytest.mark.parametrize("variant", ["", ", heartbeats"])
@each_name
def test_openai_node_follows_a_stream_to_its_final_response(
    replies: dict[str, dict[str, Any]], name: str, variant: str
) -> None:
    events = list(with_heartbeats(read_events(name))) if variant else read_events(name)
    reply = replies[name + variant]
    assert reply.get("error") is None
    assert reply["events"] == [event["type"] for event in events]
    assert without_parsed(reply["response"]) == events[-1]["response"]


@pytest.mark.parametrize("variant", [", no ends", ", no ends, heartbeats"])
@each_name
def test_openai_node_adds_a_response_up_from_its_deltas(
    replies: dict[str, dict[str, Any]], name: str, variant: str
) -> None:
    final = read_events(name)[-1]["response"]
    reply = replies[name + variant]
    assert reply.get("error") is None
    assert [(item["id"], item["type"], text_of(item)) for item in reply["response"]["output"]] == [
        (item["id"], item["type"], text_of(item)) for item in final["output"]
    ]
    assert reply["response"]["output_text"] == final["output_text"]


@pytest.mark.parametrize("objection", OBJECTIONS)
def test_openai_node_objects(replies: dict[str, dict[str, Any]], objection: str) -> None:
    assert OBJECTIONS[objection][2] in replies[objection]["error"]
