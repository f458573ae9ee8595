"""Whatever an engine says, however it is cut and ends, what comes of it is one response."""

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.resource.codec import decode_stored, encode_stored
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
    ResponseCreated,
    ResponseEnded,
    ResponseInProgress,
    StreamEvent,
)
from deployments.resource.response import (
    FunctionCallItem,
    ItemStatus,
    MessageItem,
    OutputItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
    RequestEcho,
    Response,
    ResponseFailure,
    StoredResponse,
    Usage,
)
from deployments.translate.stream import ResponseStream
from deployments.wire.responses import ResponseEventWriter, to_item
from engine.types import (
    EngineEvent,
    GenerationFinished,
    GenerationStarted,
    ReasoningDelta,
    SampledLogprob,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from tests.support.serving import make_ids

End = Literal["stop", "length", "abort", "failure", "cancel", "nothing"]
Kind = Literal["text", "reasoning", "call"]
Delta = OutputTextDelta | ReasoningTextDelta | ArgumentsDelta

NOW_S = 1_700_000_009
ECHO = RequestEcho(temperature=1.0, top_p=1.0, is_stored=True)
FAILURE = ResponseFailure("server_error", "Out of memory.")
ENDS: st.SearchStrategy[End] = st.sampled_from(
    ("stop", "length", "abort", "failure", "cancel", "nothing")
)
TEXTS = st.text(max_size=12) | st.sampled_from(
    ["é🙂👩‍👩‍👧\u2028", "\n\n", '"}\n\ndata: [DONE]\n\n']
)
limits = settings(deadline=None)


# ── what an engine says ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Heartbeat:
    """A silence that has become too long."""


@dataclass(frozen=True)
class Segment:
    """A run of one kind; a call that `is_left` is followed by something else before its end."""

    kind: Kind
    text: str
    is_left: bool = False


@dataclass(frozen=True)
class Course:
    """What an engine says, event by event, with silences between, and how that ends."""

    steps: tuple[EngineEvent | Heartbeat, ...]
    end: End
    max_calls: int | None = None


def logprobs_of(text: str) -> tuple[SampledLogprob, ...]:
    """One a character, of bytes that are not always UTF-8."""
    tokens = [TokenLogprob(char.encode("utf-16-le"), -len(char) / 3) for char in text]
    return tuple(SampledLogprob(token, (token,)) for token in tokens)


def to_events(segment: Segment, pieces: Sequence[str], before: int) -> list[EngineEvent]:
    """A segment in these pieces, after `before` tokens: each character a token, so is each end."""
    if segment.kind == "text":
        pairs = zip(pieces, count_up(pieces, before), strict=True)
        return [TextDelta(piece, number, logprobs_of(piece)) for piece, number in pairs]
    if segment.kind == "reasoning":
        pairs = zip(pieces, count_up(pieces, before), strict=True)
        return [ReasoningDelta(piece, number) for piece, number in pairs]
    pairs = zip(pieces, count_up(pieces, before + 1), strict=True)
    deltas = [ToolCallDelta(piece, number) for piece, number in pairs]
    end = [] if segment.is_left else [ToolCallFinished(before + len(segment.text) + 2)]
    return [ToolCallStarted("find", before + 1), *deltas, *end]


def count_up(pieces: Sequence[str], before: int) -> Iterator[int]:
    return itertools.islice(itertools.accumulate(map(len, pieces), initial=before), 1, None)


@st.composite
def cuttings(draw: st.DrawFn, text: str) -> list[str]:
    """Any division of a text into pieces, some of them empty."""
    inside = draw(st.lists(st.integers(0, len(text)), max_size=5))
    bounds = [0, *sorted(inside), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(bounds)]


def segments(*, may_leave: bool = True) -> st.SearchStrategy[list[Segment]]:
    kinds: st.SearchStrategy[Kind] = st.sampled_from(("text", "reasoning", "call"))
    is_left = st.booleans() if may_leave else st.just(False)
    return st.lists(st.builds(Segment, kinds, TEXTS, is_left), max_size=6)


@st.composite
def playings(draw: st.DrawFn, said: list[Segment]) -> tuple[EngineEvent | Heartbeat, ...]:
    """These segments in any pieces, with silences at any place."""
    steps: list[EngineEvent | Heartbeat] = [GenerationStarted(5, cached_tokens=3)]
    num_tokens = 0
    for segment in said:
        events = to_events(segment, draw(cuttings(segment.text)), num_tokens)
        num_tokens += len(segment.text) + (2 if segment.kind == "call" else 0)
        for event in events:
            steps += [event, *[Heartbeat()] * draw(st.integers(0, 1))]
    return tuple(steps)


CALL_LIMITS = st.sampled_from((None, None, 1, 2, 3))


@st.composite
def courses(draw: st.DrawFn) -> Course:
    """Any course; some have an event that comes when it should not."""
    steps = list(draw(segments().flatmap(playings)))
    if draw(st.booleans()):
        index = draw(st.integers(1, len(steps)))
        num_tokens = max(getattr(step, "num_tokens", 0) for step in steps[:index])
        strays: list[EngineEvent] = [ToolCallDelta("{", num_tokens), ToolCallFinished(num_tokens)]
        steps.insert(index, draw(st.sampled_from(strays)))
    return Course(tuple(steps), draw(ENDS), draw(CALL_LIMITS))


# ── what comes of it ─────────────────────────────────────────────────────────────────────────────


def make_stream(course: Course) -> ResponseStream:
    return ResponseStream("resp_1", "scripted", NOW_S - 9, make_ids(), course.max_calls)


def play(course: Course, stream: ResponseStream) -> Iterator[StreamEvent]:
    """Drive a response through a course, as the service does it."""
    yield from stream.start()
    for step in course.steps:
        if stream.has_ended:
            return
        try:
            events = stream.heartbeat() if isinstance(step, Heartbeat) else stream.feed(step, NOW_S)
        except RuntimeError:
            events = stream.fail(FAILURE.message)
        yield from events
    if not stream.has_ended:
        yield from end(course, stream)


def end(course: Course, stream: ResponseStream) -> list[StreamEvent]:
    match course.end:
        case "failure":
            return stream.fail(FAILURE.message)
        case "cancel":
            return stream.cancel()
        case "nothing":
            return []
        case reason:
            return stream.feed(GenerationFinished(reason, 1000), NOW_S)


def played(course: Course) -> tuple[list[StreamEvent], Response]:
    stream = make_stream(course)
    events = list(play(course, stream))
    return events, stream.response()


class Expected:
    """The rules for a response, said once more and in another way: whole runs, no events."""

    def __init__(self, course: Course) -> None:
        self.runs: list[tuple[Kind, str]] = []
        self.is_open = self.has_failed = self.is_full = False
        self.num_tokens = self.num_reasoning = 0
        for step in course.steps:
            if isinstance(step, Heartbeat | GenerationStarted | GenerationFinished):
                continue
            if not (self.has_failed or self.is_full):
                self._take(step, course.max_calls)
        self._end(course)

    def _take(
        self,
        step: TextDelta | ReasoningDelta | ToolCallStarted | ToolCallDelta | ToolCallFinished,
        max_calls: int | None,
    ) -> None:
        new = step.num_tokens - self.num_tokens
        self.num_tokens = step.num_tokens
        in_call = self.is_open and self.runs[-1][0] == "call"
        num_calls = sum(kind == "call" for kind, _ in self.runs)
        match step:
            case TextDelta(text=text) | ReasoningDelta(text=text):
                kind: Kind = "text" if isinstance(step, TextDelta) else "reasoning"
                self.num_reasoning += new if kind == "reasoning" else 0
                if not text:
                    return
                if in_call and num_calls == max_calls:
                    self.is_full = True
                elif self.is_open and self.runs[-1][0] == kind:
                    self.runs[-1] = (kind, self.runs[-1][1] + text)
                else:
                    self.runs.append((kind, text))
                    self.is_open = True
            case ToolCallStarted():
                self.is_full = in_call and num_calls == max_calls
                self.runs += [] if self.is_full else [("call", "")]
                self.is_open = True
            case ToolCallDelta(arguments=arguments):
                self.has_failed = bool(arguments) and not in_call
                if in_call:
                    self.runs[-1] = ("call", self.runs[-1][1] + arguments)
            case ToolCallFinished():
                self.has_failed, self.is_open = not in_call, self.is_open and not in_call
                self.is_full = in_call and num_calls == max_calls

    def _end(self, course: Course) -> None:
        self.end: End = "failure" if self.has_failed else "stop" if self.is_full else course.end
        if not (self.is_full or self.has_failed) and self.end in ("stop", "length", "abort"):
            self.num_tokens = 1000
        kinds = {kind for kind, _ in self.runs}
        says_nothing = self.end == "stop" and kinds <= {"reasoning"}
        if says_nothing or (self.end == "length" and not kinds):
            self.runs.append(("text", ""))
            self.is_open = True

    @property
    def output(self) -> tuple[OutputItem, ...]:
        last: ItemStatus = "incomplete"
        if self.end in ("stop", "nothing"):
            last = "completed" if self.end == "stop" else "in_progress"
        numbers = dict.fromkeys(("text", "reasoning", "call"), 0)
        items: list[OutputItem] = []
        for index, (kind, text) in enumerate(self.runs):
            numbers[kind] += 1
            is_last = index == len(self.runs) - 1
            status = last if is_last and self.is_open else "completed"
            whole = "{}" if kind == "call" and status == "completed" and not text else text
            items.append(make_item(kind, numbers[kind], whole, status))
        return tuple(items)

    @property
    def response(self) -> Response:
        begun = Response("resp_1", NOW_S - 9, "in_progress", "scripted", self.output)
        ended = replace(begun, usage=Usage(5, self.num_tokens, 3, self.num_reasoning))
        match self.end:
            case "stop":
                return replace(ended, status="completed", completed_at=NOW_S)
            case "length":
                return replace(ended, status="incomplete", incomplete_reason="max_output_tokens")
            case "failure":
                return replace(ended, status="failed", failure=FAILURE)
            case "abort" | "cancel":
                return replace(ended, status="cancelled")
            case "nothing":
                return begun


def make_item(kind: str, number: int, text: str, status: ItemStatus) -> OutputItem:
    if kind == "text":
        return MessageItem(f"msg_{number}", status, (OutputText(text, logprobs_of(text)),))
    if kind == "reasoning":
        return ReasoningItem(f"rs_{number}", status, (ReasoningText(text),))
    return FunctionCallItem(f"fc_{number}", status, f"call_{number}", "find", text)


def text_of(item: OutputItem) -> str:
    if isinstance(item, FunctionCallItem):
        return item.arguments
    return "".join(part.text for part in item.content)


def without_heartbeats(events: list[StreamEvent]) -> list[StreamEvent]:
    return [
        event
        for index, event in enumerate(events)
        if not (isinstance(event, ResponseInProgress) and index != 1)
    ]


# ── what must hold ───────────────────────────────────────────────────────────────────────────────


@limits
@given(courses())
def test_the_response_is_what_the_rules_say(course: Course) -> None:
    events, response = played(course)
    assert response == Expected(course).response
    assert isinstance(events[-1], ResponseEnded) == (response.status != "in_progress")


@limits
@given(st.data(), segments(may_leave=False), ENDS, CALL_LIMITS)
def test_the_cutting_and_the_silences_leave_no_trace(
    data: st.DataObject, said: list[Segment], end: End, max_calls: int | None
) -> None:
    one, other = (Course(data.draw(playings(said)), end, max_calls) for _ in range(2))
    assert played(one)[1] == played(other)[1]


@limits
@given(courses())
def test_a_response_is_created_and_in_progress_before_anything_else(course: Course) -> None:
    begun = make_stream(course).response()
    first, second, *rest = played(course)[0]
    assert (first, second) == (ResponseCreated(begun), ResponseInProgress(begun))
    assert not any(isinstance(event, ResponseCreated) for event in rest)


@limits
@given(courses())
def test_one_terminal_event_comes_last_with_the_response(course: Course) -> None:
    events, response = played(course)
    terminals = [event for event in events if isinstance(event, ResponseEnded)]
    if response.status == "in_progress":
        assert terminals == []
    else:
        assert terminals == [ResponseEnded(response)] == events[-1:]


@limits
@given(courses())
def test_written_events_are_numbered_from_0_without_a_gap(course: Course) -> None:
    events, _ = played(course)
    written = write(events)
    assert [event["sequence_number"] for event in written] == list(range(len(events)))


def write(events: list[StreamEvent]) -> list[dict[str, Any]]:
    """The data of the events as a client of `/v1` reads them."""
    writer = ResponseEventWriter(ECHO)
    lines = [writer.write(event).split(b"\n")[1] for event in events]
    return [json.loads(line.removeprefix(b"data: ")) for line in lines]


@limits
@given(courses())
def test_a_client_reads_the_same_items_when_they_are_done_and_at_the_end(course: Course) -> None:
    events, response = played(course)
    *done, last = [
        event.get("item") or event["response"]["output"]
        for event in write(events)
        if event["type"] == "response.output_item.done" or "response" in event
    ]
    done = [item for item in done if isinstance(item, dict)]
    if response.status != "in_progress":
        assert done == last == [to_item(item) for item in response.output]


@limits
@given(courses())
def test_items_that_were_added_are_done_and_are_the_output_in_its_order(course: Course) -> None:
    events, response = played(course)
    final = list(enumerate(response.output))
    added = [(e.output_index, e.item) for e in events if isinstance(e, ItemAdded)]
    done = [(e.output_index, e.item) for e in events if isinstance(e, ItemDone)]
    assert [(index, to_bare(item)) for index, item in added] == [
        (index, to_bare(item)) for index, item in final
    ]
    closed = [(index, item) for index, item in final if item.status != "in_progress"]
    assert done == closed
    assert len(final) - len(closed) <= (1 if response.status == "in_progress" else 0)


def to_bare(item: OutputItem) -> OutputItem:
    """An item as it is when it is announced."""
    match item:
        case FunctionCallItem():
            return replace(item, status="in_progress", arguments="")
        case MessageItem():
            return replace(item, status="in_progress", content=())
        case ReasoningItem():
            return replace(item, status="in_progress", content=())


@limits
@given(courses())
def test_at_most_one_item_is_open_and_its_events_come_in_their_order(course: Course) -> None:
    grammar: dict[type[StreamEvent], set[type[StreamEvent] | None]] = {
        ItemAdded: {None},
        PartAdded: {ItemAdded},
        OutputTextDelta: {PartAdded, OutputTextDelta},
        OutputTextDone: {PartAdded, OutputTextDelta},
        ReasoningTextDelta: {PartAdded, ReasoningTextDelta},
        ReasoningTextDone: {ReasoningTextDelta},
        PartDone: {OutputTextDone, ReasoningTextDone},
        ArgumentsDelta: {ItemAdded, ArgumentsDelta},
        ArgumentsDone: {ItemAdded, ArgumentsDelta},
        ItemDone: {PartDone, ArgumentsDone},
        ResponseEnded: {None},
    }
    before: type[StreamEvent] | None = None
    item: OutputItem | None = None
    for event in without_heartbeats(played(course)[0])[2:]:
        assert before in grammar[type(event)]
        if isinstance(event, ItemAdded):
            item = event.item
        has_part = isinstance(event, PartAdded | PartDone)
        assert not (has_part and isinstance(item, FunctionCallItem))
        before = None if isinstance(event, ItemDone) else type(event)


@limits
@given(courses())
def test_every_event_of_an_item_names_its_place(course: Course) -> None:
    place: tuple[str, int] | None = None
    for event in without_heartbeats(played(course)[0])[2:]:
        if isinstance(event, ItemAdded):
            place = (event.item.item_id, event.output_index)
        elif isinstance(event, ItemDone):
            assert (event.item.item_id, event.output_index) == place
        elif not isinstance(event, ResponseEnded | ResponseCreated | ResponseInProgress):
            assert (event.item_id, event.output_index) == place
            assert getattr(event, "content_index", 0) == 0


@limits
@given(courses())
def test_deltas_are_never_empty_and_add_up_to_the_texts(course: Course) -> None:
    events, response = played(course)
    sums = dict.fromkeys(range(len(response.output)), "")
    for event in events:
        if isinstance(event, Delta):
            assert event.delta
            sums[event.output_index] += event.delta
    assert list(sums.values()) == [text_of(item) for item in response.output]
    for event in events:
        if isinstance(event, OutputTextDone | ReasoningTextDone):
            assert event.text == sums[event.output_index]
        if isinstance(event, PartDone):
            assert event.part.text == sums[event.output_index]
        if isinstance(event, ArgumentsDone):
            assert (event.name, event.arguments) == ("find", sums[event.output_index])


@limits
@given(courses())
def test_log_probabilities_of_the_deltas_are_those_of_the_whole_text(course: Course) -> None:
    events, response = played(course)
    told: dict[int, tuple[SampledLogprob, ...]] = {}
    for event in events:
        if isinstance(event, OutputTextDelta):
            told[event.output_index] = told.get(event.output_index, ()) + event.logprobs
        if isinstance(event, OutputTextDone):
            assert event.logprobs == told.get(event.output_index, ())
        if isinstance(event, PartDone) and isinstance(event.part, OutputText):
            assert event.part.logprobs == told.get(event.output_index, ())
    for index, item in enumerate(response.output):
        if isinstance(item, MessageItem):
            assert item.content[0].logprobs == told.get(index, ())


@limits
@given(courses())
def test_there_are_never_more_calls_than_are_allowed(course: Course) -> None:
    events, response = played(course)
    calls = [item for item in response.output if item.kind == "function_call"]
    assert course.max_calls is None or len(calls) <= course.max_calls
    assert len({call.call_id for call in calls}) == len(calls)
    assert len({item.item_id for item in response.output}) == len(response.output)
    finished = sum(isinstance(event, ArgumentsDone) for event in events)
    if finished == course.max_calls:
        assert response.status != "in_progress"


@limits
@given(courses())
def test_a_sign_of_life_carries_what_was_told_and_changes_nothing_else(course: Course) -> None:
    quiet = replace(
        course, steps=tuple(step for step in course.steps if not isinstance(step, Heartbeat))
    )
    events, response = played(course)
    assert (without_heartbeats(events), response) == played(quiet)
    begun = make_stream(course).response()
    told: list[str] = []
    done: list[OutputItem] = []
    for event in events:
        if isinstance(event, ItemAdded):
            told.append("")
        elif isinstance(event, Delta):
            told[event.output_index] += event.delta
        elif isinstance(event, ItemDone):
            done.append(event.item)
        elif isinstance(event, ResponseInProgress):
            output = event.response.output
            assert replace(event.response, output=()) == begun
            assert [text_of(item) for item in output] == told
            assert list(output[: len(done)]) == done
            assert [item.status for item in output[len(done) :]] in ([], ["in_progress"])


@limits
@given(courses())
def test_usage_counts_no_more_thinking_than_output(course: Course) -> None:
    _, response = played(course)
    if response.usage is None:
        assert response.status == "in_progress"
    else:
        assert 0 <= response.usage.reasoning_tokens <= response.usage.output_tokens
        texts = [text_of(item) for item in response.output]
        spoken = sum(len(text) for text in texts if text != "{}")  # which stands for nothing
        assert response.usage.output_tokens >= spoken


@limits
@given(courses())
def test_at_any_moment_a_response_survives_its_storing(course: Course) -> None:
    stream = make_stream(course)
    for _ in play(course, stream):
        stored = StoredResponse(stream.response(), ECHO)
        assert decode_stored(encode_stored(stored)) == stored


@limits
@given(courses())
def test_nothing_is_accepted_after_the_end(course: Course) -> None:
    stream = make_stream(course)
    list(play(course, stream))
    final = stream.response()
    if not stream.has_ended:
        return
    attempts = [
        lambda: stream.feed(GenerationStarted(1), NOW_S),
        lambda: stream.feed(TextDelta("x", 1), NOW_S),
        lambda: stream.feed(ReasoningDelta("x", 1), NOW_S),
        lambda: stream.feed(ToolCallStarted("find", 1), NOW_S),
        lambda: stream.feed(ToolCallDelta("x", 1), NOW_S),
        lambda: stream.feed(ToolCallFinished(1), NOW_S),
        lambda: stream.feed(GenerationFinished("stop", 1), NOW_S),
        lambda: stream.fail("late"),
        stream.heartbeat,
        stream.cancel,
    ]
    for attempt in attempts:
        with pytest.raises(RuntimeError, match="response resp_1 has ended"):
            attempt()
    assert stream.response() == final
