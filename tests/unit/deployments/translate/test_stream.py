"""What the events of an engine make of one response."""

from collections.abc import Callable
from dataclasses import replace

import pytest

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
    ReasoningDelta,
    SampledLogprob,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from tests.support.scripted import calling, thinking
from tests.support.serving import make_ids

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


def make_stream(max_calls: int | None = None) -> ResponseStream:
    return ResponseStream("resp_1", "scripted", 1_700_000_000, make_ids(), max_calls)


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


# Reasoning and calls

STARTED = GenerationStarted(5)


def reasoning(text: str, status: ItemStatus = "completed", number: int = 1) -> ReasoningItem:
    return ReasoningItem(f"rs_{number}", status, (ReasoningText(text),))


def call(
    name: str, arguments: str, status: ItemStatus = "completed", number: int = 1
) -> FunctionCallItem:
    return FunctionCallItem(f"fc_{number}", status, f"call_{number}", name, arguments)


def played(*events: EngineEvent, max_calls: int | None = None) -> ResponseStream:
    """A stream that was fed these events, and cares for nothing that comes after its end."""
    stream = make_stream(max_calls)
    for event in (STARTED, *events):
        if not stream.has_ended:
            stream.feed(event, NOW_S)
    return stream


def test_thinking_is_an_item_ahead_of_the_message() -> None:
    stream = make_stream()
    done = reasoning("Hm.")
    made = feed(stream, STARTED, ReasoningDelta("Hm", 1), ReasoningDelta(".", 2), TextDelta("A", 3))
    assert made == [
        ItemAdded(0, ReasoningItem("rs_1", "in_progress", ())),
        PartAdded("rs_1", 0, 0, ReasoningText("")),
        ReasoningTextDelta("rs_1", 0, 0, "Hm"),
        ReasoningTextDelta("rs_1", 0, 0, "."),
        ReasoningTextDone("rs_1", 0, 0, "Hm."),
        PartDone("rs_1", 0, 0, ReasoningText("Hm.")),
        ItemDone(0, done),
        ItemAdded(1, MessageItem("msg_1", "in_progress", ())),
        PartAdded("msg_1", 1, 0, OutputText("")),
        OutputTextDelta("msg_1", 1, 0, "A"),
    ]
    assert stream.response().output == (done, message("A", "in_progress"))


def test_a_call_grows_from_its_name_to_its_whole_arguments() -> None:
    stream = make_stream()
    done = call("find", '{"q":1}')
    made = feed(
        stream,
        STARTED,
        ToolCallStarted("find", 1),
        ToolCallDelta('{"q":', 2),
        ToolCallDelta("1}", 3),
        ToolCallFinished(4),
        GenerationFinished("stop", 5),
    )
    assert made == [
        ItemAdded(0, call("find", "", "in_progress")),
        ArgumentsDelta("fc_1", 0, '{"q":'),
        ArgumentsDelta("fc_1", 0, "1}"),
        ArgumentsDone("fc_1", 0, "find", '{"q":1}'),
        ItemDone(0, done),
        ResponseEnded(stream.response()),
    ]
    assert stream.response().output == (done,)


def test_a_whole_call_without_arguments_has_an_empty_object() -> None:
    made = feed(make_stream(), STARTED, ToolCallStarted("now", 1), ToolCallFinished(2))
    assert made == [
        ItemAdded(0, call("now", "", "in_progress")),
        ArgumentsDelta("fc_1", 0, "{}"),
        ArgumentsDone("fc_1", 0, "now", "{}"),
        ItemDone(0, call("now", "{}")),
    ]


def test_a_call_that_is_cut_before_its_arguments_has_none() -> None:
    made = feed(make_stream(), STARTED, ToolCallStarted("now", 1), GenerationFinished("length", 1))
    assert made[1:3] == [
        ArgumentsDone("fc_1", 0, "now", ""),
        ItemDone(0, call("now", "", "incomplete")),
    ]


@pytest.mark.parametrize(
    "empty", [TextDelta("", 1), ReasoningDelta("", 1)], ids=["text", "reasoning"]
)
def test_an_empty_piece_opens_nothing(empty: EngineEvent) -> None:
    assert feed(make_stream(), STARTED, empty) == []


def test_an_empty_piece_of_arguments_is_no_event() -> None:
    stream = played(ToolCallStarted("now", 1))
    assert stream.feed(ToolCallDelta("", 2), NOW_S) == []


@pytest.mark.parametrize(
    ("events", "output"),
    [
        (thinking("Hm"), [reasoning("Hm"), message("", "completed")]),
        ([*calling("now", "{}")], [call("now", "{}")]),
        ([ReasoningDelta("Hm", 1), *calling("now")], [reasoning("Hm"), call("now", "{}")]),
        (
            [*calling("now", "{}"), *calling("find", "{}")],
            [call("now", "{}"), call("find", "{}", number=2)],
        ),
        (
            [ToolCallStarted("now", 1), ToolCallStarted("find", 2)],
            [call("now", "{}"), call("find", "{}", number=2)],
        ),
        (
            [ToolCallStarted("now", 1), TextDelta("So", 2)],
            [call("now", "{}"), message("So", "completed")],
        ),
    ],
)
def test_an_answer_that_comes_to_its_end_has_whole_items(
    events: list[EngineEvent], output: list[OutputItem]
) -> None:
    stream = played(*events, GenerationFinished("stop", 9))
    assert stream.response().output == tuple(output)
    assert stream.response().status == "completed"


CUTS: list[Callable[[ResponseStream], list[StreamEvent]]] = [
    lambda stream: stream.feed(GenerationFinished("length", 9), NOW_S),
    *(case[1] for case in END_EARLY),
]


@pytest.mark.parametrize("cut", CUTS, ids=["length", *(case[0] for case in END_EARLY)])
@pytest.mark.parametrize(
    ("events", "output"),
    [
        (thinking("Hm"), [reasoning("Hm", "incomplete")]),
        (
            [ReasoningDelta("Hm", 1), TextDelta("A", 2)],
            [reasoning("Hm"), message("A", "incomplete")],
        ),
        (calling("now", "{")[:-1], [call("now", "{", "incomplete")]),
        (
            [*calling("now", "{}"), ToolCallStarted("find", 4)],
            [call("now", "{}"), call("find", "", "incomplete", 2)],
        ),
        (calling("now", "{}"), [call("now", "{}")]),
    ],
    ids=["reasoning", "text", "call", "second call", "whole call"],
)
def test_only_what_a_cut_has_cut_is_incomplete(
    cut: Callable[[ResponseStream], list[StreamEvent]],
    events: list[EngineEvent],
    output: list[OutputItem],
) -> None:
    stream = played(*events)
    *_, terminal = cut(stream)
    assert terminal == ResponseEnded(stream.response())
    assert stream.response().output == tuple(output)
    assert stream.response().status != "completed"


@pytest.mark.parametrize("wrong", [ToolCallDelta("{", 4), ToolCallFinished(4)], ids=repr)
@pytest.mark.parametrize(
    "before", [[], [TextDelta("A", 1)], calling("now", "{}")], ids=["nothing", "text", "whole call"]
)
def test_arguments_without_their_call_are_refused_and_the_response_can_fail(
    wrong: EngineEvent, before: list[EngineEvent]
) -> None:
    stream = played(*before)
    output = stream.response().output
    with pytest.raises(RuntimeError, match="tells of a call that has not started"):
        stream.feed(wrong, NOW_S)
    assert stream.response().output == output
    assert isinstance(stream.fail("Out of memory.")[-1], ResponseEnded)


# The limit of calls


@pytest.mark.parametrize("max_calls", [1, 2])
def test_after_the_last_call_allowed_the_response_is_whole(max_calls: int) -> None:
    stream = make_stream(max_calls)
    for number in range(max_calls):
        assert not stream.has_ended
        made = feed(stream, *calling("now", "{}", before=3 * number))
    response = stream.response()
    assert made[-1] == ResponseEnded(response)
    assert (response.status, response.completed_at) == ("completed", NOW_S)
    assert response.usage == Usage(0, 3 * max_calls)
    assert response.output == tuple(call("now", "{}", number=n + 1) for n in range(max_calls))


@pytest.mark.parametrize(
    "more", [TextDelta("So", 9), ReasoningDelta("Hm", 9), ToolCallStarted("find", 9)], ids=repr
)
def test_what_comes_after_the_last_call_allowed_is_not_part_of_it(more: EngineEvent) -> None:
    stream = played(ToolCallStarted("now", 1), more, max_calls=1)
    assert stream.has_ended
    assert stream.response().output == (call("now", "{}"),)


def test_a_text_before_the_first_call_counts_for_nothing() -> None:
    stream = played(*thinking("Hm"), TextDelta("A", 2), *calling("now"), max_calls=2)
    assert not stream.has_ended


# Heartbeats


@pytest.mark.parametrize(
    ("events", "output"),
    [
        ([], []),
        ([TextDelta("Hel", 1)], [message("Hel", "in_progress")]),
        (thinking("Hm"), [reasoning("Hm", "in_progress")]),
        (calling("now", "{")[:-1], [call("now", "{", "in_progress")]),
        (calling("now", "{}"), [call("now", "{}")]),
    ],
    ids=["nothing", "text", "reasoning", "call", "between items"],
)
def test_a_sign_of_life_carries_the_response_as_it_stands_and_changes_nothing(
    events: list[EngineEvent], output: list[OutputItem]
) -> None:
    stream = played(*events)
    expected = [ResponseInProgress(replace(BEGUN, output=tuple(output)))]
    assert stream.heartbeat() == stream.heartbeat() == expected
    assert stream.response() == expected[0].response


def test_a_response_that_has_ended_gives_no_sign_of_life() -> None:
    stream = played(GenerationFinished("stop", 1))
    with pytest.raises(RuntimeError, match="response resp_1 has ended"):
        stream.heartbeat()


# Usage


@pytest.mark.parametrize(
    ("events", "output_tokens", "reasoning_tokens"),
    [
        ([*thinking("Hm", "hm"), TextDelta("A", 5), GenerationFinished("stop", 6)], 6, 2),
        ([TextDelta("A", 3), ReasoningDelta("Hm", 5), GenerationFinished("stop", 6)], 6, 2),
        ([ReasoningDelta("", 2), TextDelta("A", 3), GenerationFinished("length", 3)], 3, 2),
        ([*calling("now", "{}"), ReasoningDelta("Hm", 7), GenerationFinished("abort", 9)], 9, 4),
    ],
)
def test_usage_tells_thinking_from_the_rest(
    events: list[EngineEvent], output_tokens: int, reasoning_tokens: int
) -> None:
    usage = played(*events).response().usage
    assert usage == Usage(5, output_tokens, reasoning_tokens=reasoning_tokens)


@pytest.mark.parametrize(
    ("event", "num_reasoning"),
    [(TextDelta("A", 7), 0), (ReasoningDelta("A", 7), 7), (ToolCallStarted("now", 7), 0)],
    ids=["text", "reasoning", "call"],
)
def test_usage_of_a_response_that_fails_counts_what_was_sampled(
    event: EngineEvent, num_reasoning: int
) -> None:
    stream = played(event)
    stream.fail("Out of memory.")
    assert stream.response().usage == Usage(5, 7, reasoning_tokens=num_reasoning)


def test_log_probabilities_stand_by_the_text_that_they_are_of() -> None:
    first, second = (
        SampledLogprob(TokenLogprob(token, -1.0), (TokenLogprob(b"x", -2.0),))
        for token in (b"\xf0", b"\x9f")
    )
    stream = make_stream()
    made = feed(stream, STARTED, TextDelta("a", 1, (first,)), TextDelta("b", 2, (second, first)))
    assert made[2:] == [
        OutputTextDelta("msg_1", 0, 0, "a", (first,)),
        OutputTextDelta("msg_1", 0, 0, "b", (second, first)),
    ]
    done, part, *_ = feed(stream, GenerationFinished("stop", 3))
    whole = OutputText("ab", (first, second, first))
    assert (done, part) == (
        OutputTextDone("msg_1", 0, 0, "ab", whole.logprobs),
        PartDone("msg_1", 0, 0, whole),
    )
    assert stream.response().output == (MessageItem("msg_1", "completed", (whole,)),)
