"""What the events of an engine make of one response."""

import itertools
from collections.abc import Callable

import pytest

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
    Response,
    ResponseFailure,
    Usage,
)
from deployments.translate.stream import ResponseStream
from engine.types import (
    EngineEvent,
    FinishReason,
    GenerationFinished,
    GenerationStarted,
    TextDelta,
)

NOW_S = 1_700_000_009
BEGUN = Response("resp_1", 1_700_000_000, "in_progress", "scripted")
FAILURE = ResponseFailure("server_error", "Out of memory.")

OPENED: list[StreamEvent] = [
    ItemAdded(0, MessageItem("msg_1", "in_progress", ())),
    PartAdded("msg_1", 0, 0, OutputText("")),
]


def message(text: str, status: ItemStatus) -> MessageItem:
    return MessageItem("msg_1", status, (OutputText(text),))


def closed(text: str, status: ItemStatus) -> list[StreamEvent]:
    return [
        OutputTextDone("msg_1", 0, 0, text),
        PartDone("msg_1", 0, 0, OutputText(text)),
        ItemDone(0, message(text, status)),
    ]


def make_stream() -> ResponseStream:
    numbers = itertools.count(1)
    return ResponseStream("resp_1", "scripted", 1_700_000_000, lambda: f"msg_{next(numbers)}")


def feed(stream: ResponseStream, *events: EngineEvent) -> list[StreamEvent]:
    return [made for event in events for made in stream.feed(event, NOW_S)]


def test_a_response_is_announced_before_anything_else() -> None:
    assert make_stream().start() == [ResponseCreated(BEGUN), ResponseInProgress(BEGUN)]


def test_a_text_is_one_message_from_its_opening_to_its_end() -> None:
    stream = make_stream()
    ended = Response(
        "resp_1",
        1_700_000_000,
        "completed",
        "scripted",
        (message("Hello", "completed"),),
        Usage(5, 3, cached_tokens=4),
        completed_at=NOW_S,
    )
    assert feed(
        stream,
        GenerationStarted(5, cached_tokens=4),
        TextDelta("Hel", 1),
        TextDelta("lo", 2),
        GenerationFinished("stop", 3),
    ) == [
        *OPENED,
        OutputTextDelta("msg_1", 0, 0, "Hel"),
        OutputTextDelta("msg_1", 0, 0, "lo"),
        *closed("Hello", "completed"),
        ResponseEnded(ended),
    ]
    assert (stream.response(), stream.has_ended) == (ended, True)


@pytest.mark.parametrize(
    ("reason", "ended"),
    [
        (
            "stop",
            Response(
                "resp_1",
                1_700_000_000,
                "completed",
                "scripted",
                (message("", "completed"),),
                Usage(5, 1),
                completed_at=NOW_S,
            ),
        ),
        (
            "length",
            Response(
                "resp_1",
                1_700_000_000,
                "incomplete",
                "scripted",
                (message("", "incomplete"),),
                Usage(5, 1),
                incomplete_reason="max_output_tokens",
            ),
        ),
    ],
)
def test_an_answer_without_a_character_is_an_empty_message(
    reason: FinishReason, ended: Response
) -> None:
    made = feed(make_stream(), GenerationStarted(5), GenerationFinished(reason, 1))
    assert made == [*OPENED, *closed("", ended.output[0].status), ResponseEnded(ended)]


END_EARLY: list[tuple[str, Callable[[ResponseStream], list[StreamEvent]], Response]] = [
    (
        "cancel",
        ResponseStream.cancel,
        Response("resp_1", 1_700_000_000, "cancelled", "scripted", usage=Usage(5, 0)),
    ),
    (
        "abort",
        lambda stream: stream.feed(GenerationFinished("abort", 0), NOW_S),
        Response("resp_1", 1_700_000_000, "cancelled", "scripted", usage=Usage(5, 0)),
    ),
    (
        "fail",
        lambda stream: stream.fail("Out of memory."),
        Response("resp_1", 1_700_000_000, "failed", "scripted", usage=Usage(5, 0), failure=FAILURE),
    ),
]


@pytest.mark.parametrize(
    ("end", "ended"), [case[1:] for case in END_EARLY], ids=[case[0] for case in END_EARLY]
)
def test_an_early_end_before_the_first_character_leaves_no_item(
    end: Callable[[ResponseStream], list[StreamEvent]], ended: Response
) -> None:
    stream = make_stream()
    feed(stream, GenerationStarted(5))
    assert end(stream) == [ResponseEnded(ended)]


@pytest.mark.parametrize("end", [case[1] for case in END_EARLY], ids=[c[0] for c in END_EARLY])
def test_an_early_end_keeps_what_was_said(
    end: Callable[[ResponseStream], list[StreamEvent]],
) -> None:
    stream = make_stream()
    feed(stream, GenerationStarted(5), TextDelta("Hel", 1))
    *before, terminal = end(stream)
    assert before == closed("Hel", "incomplete")
    assert terminal == ResponseEnded(stream.response())
    assert stream.response().output == (message("Hel", "incomplete"),)


def test_a_response_that_grows_shows_what_was_said_so_far() -> None:
    stream = make_stream()
    feed(stream, GenerationStarted(5), TextDelta("Hel", 1))
    assert stream.response() == Response(
        "resp_1",
        1_700_000_000,
        "in_progress",
        "scripted",
        (message("Hel", "in_progress"),),
    )
    assert not stream.has_ended


@pytest.mark.parametrize("end", [case[1] for case in END_EARLY], ids=[c[0] for c in END_EARLY])
def test_nothing_is_accepted_after_the_end(
    end: Callable[[ResponseStream], list[StreamEvent]],
) -> None:
    stream = make_stream()
    feed(stream, GenerationStarted(5))
    end(stream)
    final = stream.response()
    for again in (end, lambda s: s.feed(TextDelta("more", 1), NOW_S)):
        with pytest.raises(RuntimeError, match="response resp_1 has ended"):
            again(stream)
    assert stream.response() == final
