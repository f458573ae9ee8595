"""However an engine's text is cut and however it ends, what comes of it is one response."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.resource.codec import decode_stored, encode_stored
from deployments.resource.events import (
    ItemAdded,
    ItemDone,
    OutputTextDelta,
    OutputTextDone,
    PartAdded,
    PartDone,
    ResponseCreated,
    ResponseEnded,
    ResponseInProgress,
    StreamEvent,
)
from deployments.resource.response import (
    ItemStatus,
    MessageItem,
    OutputText,
    RequestEcho,
    Response,
    ResponseFailure,
    StoredResponse,
    Usage,
)
from deployments.translate.stream import ResponseStream
from deployments.wire.responses import ResponseEventWriter
from engine.types import GenerationFinished, GenerationStarted, TextDelta

End = Literal["stop", "length", "abort", "failure", "cancel", "nothing"]

NOW_S = 1_700_000_009
ECHO = RequestEcho(temperature=1.0, top_p=1.0, is_stored=True)
FAILURE = ResponseFailure("server_error", "Out of memory.")
ENDS: st.SearchStrategy[End] = st.sampled_from(
    ("stop", "length", "abort", "failure", "cancel", "nothing")
)
limits = settings(max_examples=100, deadline=None)


@dataclass(frozen=True)
class Course:
    """What an engine says, piece by piece, and how that ends. A token is a character."""

    pieces: tuple[str, ...]
    end: End
    is_started: bool

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def usage(self) -> Usage:
        """`GenerationFinished` counts a token more than the text: the one that ended it."""
        closing = 1 if self.end in ("stop", "length", "abort") else 0
        prompt_tokens, cached_tokens = (5, 3) if self.is_started else (0, 0)
        return Usage(prompt_tokens, len(self.text) + closing, cached_tokens)


@st.composite
def cuttings(draw: st.DrawFn, text: str) -> tuple[str, ...]:
    """Any division of a text into pieces that are not empty."""
    inside = st.integers(1, max(1, len(text) - 1))
    bounds = sorted({0, *draw(st.lists(inside, max_size=8)), len(text)})
    return tuple(text[a:b] for a, b in itertools.pairwise(bounds) if a < b <= len(text))


TEXTS = st.text(max_size=40) | st.sampled_from(
    ["é🙂👩‍👩‍👧\u2028", "\n\n", '"}\n\ndata: [DONE]\n\n']
)


@st.composite
def courses(draw: st.DrawFn) -> Course:
    pieces = draw(TEXTS.flatmap(cuttings))
    return Course(pieces, draw(ENDS), is_started=bool(pieces) or draw(st.booleans()))


def make_stream() -> ResponseStream:
    numbers = itertools.count(1)
    return ResponseStream("resp_1", "scripted", NOW_S - 9, lambda: f"msg_{next(numbers)}")


def play(course: Course, stream: ResponseStream) -> Iterator[StreamEvent]:
    """What a response makes of a course, event by event."""
    yield from stream.start()
    if course.is_started:
        yield from stream.feed(GenerationStarted(5, cached_tokens=3), NOW_S)
    num_tokens = 0
    for piece in course.pieces:
        num_tokens += len(piece)
        yield from stream.feed(TextDelta(piece, num_tokens), NOW_S)
    match course.end:
        case "failure":
            yield from stream.fail(FAILURE.message)
        case "cancel":
            yield from stream.cancel()
        case "stop" | "length" | "abort":
            yield from stream.feed(GenerationFinished(course.end, num_tokens + 1), NOW_S)


def to_expected(course: Course) -> Response:
    """The rules for a finished response, said once more and in one piece."""
    response = Response("resp_1", NOW_S - 9, "in_progress", "scripted")
    status: ItemStatus = "completed" if course.end == "stop" else "incomplete"
    message = MessageItem("msg_1", status, (OutputText(course.text),))
    output = (message,) if course.text or course.end in ("stop", "length") else ()
    ended = replace(response, output=output, usage=course.usage)
    match course.end:
        case "stop":
            return replace(ended, status="completed", completed_at=NOW_S)
        case "length":
            return replace(ended, status="incomplete", incomplete_reason="max_output_tokens")
        case "failure":
            return replace(ended, status="failed", failure=FAILURE)
        case "abort" | "cancel":
            return replace(ended, status="cancelled")
        case "nothing":
            going = (replace(message, status="in_progress"),) if course.text else ()
            return replace(response, output=going)


@limits
@given(courses())
def test_the_response_is_what_the_rules_say(course: Course) -> None:
    stream = make_stream()
    list(play(course, stream))
    assert stream.response() == to_expected(course)
    assert stream.has_ended == (course.end != "nothing")


@limits
@given(st.data(), TEXTS, ENDS)
def test_the_cutting_leaves_no_trace(data: st.DataObject, text: str, end: End) -> None:
    streams = make_stream(), make_stream()
    for stream in streams:
        pieces = data.draw(cuttings(text))
        list(play(Course(pieces, end, is_started=True), stream))
    assert streams[0].response() == streams[1].response()


@limits
@given(courses())
def test_a_response_is_created_then_in_progress_then_anything_else(course: Course) -> None:
    stream = make_stream()
    begun = stream.response()
    first, second, *rest = play(course, stream)
    assert (first, second) == (ResponseCreated(begun), ResponseInProgress(begun))
    assert not any(isinstance(event, ResponseCreated | ResponseInProgress) for event in rest)


@limits
@given(courses())
def test_one_terminal_event_comes_last_with_the_response(course: Course) -> None:
    stream = make_stream()
    *before, last = play(course, stream)
    assert not any(isinstance(event, ResponseEnded) for event in before)
    if course.end == "nothing":
        assert not isinstance(last, ResponseEnded)
    else:
        assert last == ResponseEnded(stream.response())


@limits
@given(courses())
def test_written_events_are_numbered_from_0_without_a_gap(course: Course) -> None:
    writer = ResponseEventWriter(ECHO)
    written = [writer.write(event) for event in play(course, make_stream())]
    datas = [event.split(b"\n")[1].removeprefix(b"data: ") for event in written]
    numbers = [json.loads(data)["sequence_number"] for data in datas]
    assert numbers == list(range(len(written)))


@limits
@given(courses())
def test_items_that_were_added_are_done_and_are_the_output(course: Course) -> None:
    stream = make_stream()
    events = list(play(course, stream))
    final = list(enumerate(item.item_id for item in stream.response().output))
    added = [(e.output_index, e.item.item_id) for e in events if isinstance(e, ItemAdded)]
    done = [(e.output_index, e.item) for e in events if isinstance(e, ItemDone)]
    assert added == final
    assert done == (list(enumerate(stream.response().output)) if stream.has_ended else [])


@limits
@given(courses())
def test_the_deltas_of_a_part_add_up_to_its_text(course: Course) -> None:
    stream = make_stream()
    events = list(play(course, stream))
    deltas = [event.delta for event in events if isinstance(event, OutputTextDelta)]
    dones = [event.text for event in events if isinstance(event, OutputTextDone)]
    parts = [event.part.text for event in events if isinstance(event, PartDone)]
    final = [part.text for item in stream.response().output for part in item.content]
    assert deltas == list(course.pieces)
    assert dones == parts == (final if stream.has_ended else [])
    assert final in ([], ["".join(deltas)])


@limits
@given(courses())
def test_every_event_of_a_part_names_its_place(course: Course) -> None:
    placed = (PartAdded, OutputTextDelta, OutputTextDone, PartDone)
    places = {
        (event.item_id, event.output_index, event.content_index)
        for event in play(course, make_stream())
        if isinstance(event, placed)
    }
    assert places <= {("msg_1", 0, 0)}


@limits
@given(courses())
def test_at_any_moment_the_response_holds_what_was_told_and_survives_its_storing(
    course: Course,
) -> None:
    stream = make_stream()
    told = ""
    for event in play(course, stream):
        told += event.delta if isinstance(event, OutputTextDelta) else ""
        response = stream.response()
        stored = StoredResponse(response, ECHO)
        assert decode_stored(encode_stored(stored)) == stored
        if isinstance(event, OutputTextDelta | ResponseEnded):
            assert "".join(p.text for item in response.output for p in item.content) == told


@limits
@given(courses().filter(lambda course: course.end != "nothing"), courses())
def test_nothing_is_accepted_after_the_end(course: Course, more: Course) -> None:
    stream = make_stream()
    list(play(course, stream))
    final = stream.response()
    attempts = [
        lambda: stream.feed(GenerationStarted(1), NOW_S),
        lambda: stream.feed(TextDelta(more.text or "x", 1), NOW_S),
        lambda: stream.feed(GenerationFinished("stop", 1), NOW_S),
        lambda: stream.fail("late"),
        stream.cancel,
    ]
    for attempt in attempts:
        with pytest.raises(RuntimeError, match="response resp_1 has ended"):
            attempt()
    assert stream.response() == final
