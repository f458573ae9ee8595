"""A response and its events as Chat Completions spells them."""

import json
from dataclasses import replace
from typing import Any

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
    MessageItem,
    OutputItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
    Response,
    Usage,
)
from deployments.sse import COMMENT, DONE
from deployments.wire.chat import ChatChunkWriter, ChatStyle, to_chat_completion
from engine.types import SampledLogprob, TokenLogprob
from tests.support.chat_oracles import check_body

BEGUN = Response("chatcmpl_1", 1_700_000_000, "in_progress", "scripted")
CALL = FunctionCallItem("fc_1", "completed", "call_1", "f", "{}")
LOGPROB = SampledLogprob(TokenLogprob(b"a", -0.5), ())
ALIASED = ChatStyle(reasoning_names=("reasoning_content", "reasoning"))


def message(text: str, *logprobs: SampledLogprob) -> MessageItem:
    return MessageItem("msg_1", "completed", (OutputText(text, logprobs),))


def thought(text: str) -> ReasoningItem:
    return ReasoningItem("rs_1", "completed", (ReasoningText(text),))


def ended(*output: OutputItem, **changes: Any) -> Response:
    return replace(BEGUN, **{"status": "completed", "output": output, **changes})


def choose(response: Response, style: ChatStyle = ALIASED) -> dict[str, Any]:
    body = to_chat_completion(response, style)
    check_body(body)
    (choice,) = body["choices"]
    chosen: dict[str, Any] = choice
    return chosen


def test_the_texts_of_all_messages_are_one_content() -> None:
    chosen = choose(ended(message("a"), thought("b"), message("c")))
    assert chosen["message"]["content"] == "ac"


def test_thoughts_of_all_items_come_under_each_name() -> None:
    chosen = choose(ended(thought("a"), message("b"), thought("c")))
    assert chosen["message"]["reasoning_content"] == chosen["message"]["reasoning"] == "ac"


def test_without_a_thought_there_is_no_key_for_it() -> None:
    for response in (ended(message("a")), ended(thought(""), message("a"))):
        assert choose(response)["message"].keys() == {"role", "content", "refusal"}


@pytest.mark.parametrize("output", [[CALL], [thought("a")], []])
def test_content_is_null_where_nothing_is_said(output: list[OutputItem]) -> None:
    assert choose(ended(*output))["message"]["content"] is None


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (ended(message("a")), "stop"),
        (ended(message("a"), CALL), "tool_calls"),
        (ended(message("a"), status="incomplete"), "length"),
        (ended(CALL, message("a"), status="incomplete"), "length"),
    ],
)
def test_the_finish_reason_says_how_it_ended(response: Response, reason: str) -> None:
    assert choose(response)["finish_reason"] == reason


def test_log_probabilities_are_null_where_nobody_asked() -> None:
    response = ended(message("a", LOGPROB))
    assert choose(response)["logprobs"] is None
    assert choose(response, ChatStyle(has_logprobs=True))["logprobs"] == {
        "content": [{"token": "a", "bytes": [97], "logprob": -0.5, "top_logprobs": []}],
        "refusal": None,
    }


def test_usage_has_the_cached_and_the_thinking_tokens() -> None:
    body = to_chat_completion(ended(message("a"), usage=Usage(9, 7, 4, 3)), ChatStyle())
    assert body["usage"] == {
        "prompt_tokens": 9,
        "completion_tokens": 7,
        "total_tokens": 16,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }


def begin(style: ChatStyle) -> ChatChunkWriter:
    """A writer whose response has begun."""
    writer = ChatChunkWriter(style)
    writer.write(ResponseCreated(BEGUN))
    writer.write(ResponseInProgress(BEGUN))
    return writer


def read_choice(chunk: bytes) -> dict[str, Any]:
    (choice,) = json.loads(chunk.removeprefix(b"data: "))["choices"]
    chosen: dict[str, Any] = choice
    return chosen


FRAMES: list[StreamEvent] = [
    ItemAdded(0, message("")),
    PartAdded("msg_1", 0, 0, OutputText("")),
    OutputTextDone("msg_1", 0, 0, "a", (LOGPROB,)),
    ReasoningTextDone("rs_1", 0, 0, "a"),
    ArgumentsDone("fc_1", 0, "f", "{}"),
    PartDone("msg_1", 0, 0, OutputText("a")),
    ItemDone(0, CALL),
]


@pytest.mark.parametrize("event", FRAMES, ids=lambda event: type(event).__name__)
def test_what_only_frames_other_events_is_not_written(event: StreamEvent) -> None:
    assert begin(ALIASED).write(event) == b""


def test_calls_are_counted_from_0_and_named_once() -> None:
    writer = begin(ALIASED)
    deltas = [
        read_choice(writer.write(event))["delta"]["tool_calls"]
        for event in (
            ItemAdded(1, replace(CALL, arguments="")),
            ArgumentsDelta("fc_1", 1, "{}"),
            ItemAdded(2, replace(CALL, arguments="", call_id="call_2")),
            ArgumentsDelta("fc_2", 2, "[]"),
        )
    ]
    begun = {"type": "function", "function": {"name": "f", "arguments": ""}}
    assert deltas == [
        [{"index": 0, "id": "call_1", **begun}],
        [{"index": 0, "function": {"arguments": "{}"}}],
        [{"index": 1, "id": "call_2", **begun}],
        [{"index": 1, "function": {"arguments": "[]"}}],
    ]


def test_a_thought_is_streamed_under_each_name() -> None:
    chunk = begin(ALIASED).write(ReasoningTextDelta("rs_1", 0, 0, "Hm"))
    assert read_choice(chunk)["delta"] == {"reasoning_content": "Hm", "reasoning": "Hm"}


def test_a_piece_that_completes_no_token_has_no_log_probabilities() -> None:
    writer = begin(ChatStyle(has_logprobs=True))
    without = read_choice(writer.write(OutputTextDelta("msg_1", 0, 0, "a")))
    with_some = read_choice(writer.write(OutputTextDelta("msg_1", 0, 0, "b", (LOGPROB,))))
    assert without["logprobs"] is None
    assert len(with_some["logprobs"]["content"]) == 1


def test_every_sign_of_life_but_the_first_is_a_comment() -> None:
    writer = ChatChunkWriter(ALIASED)
    writer.write(ResponseCreated(BEGUN))
    beats = [writer.write(ResponseInProgress(BEGUN)) for _ in range(3)]
    assert beats == [b"", COMMENT, COMMENT]


def test_the_end_is_a_reason_the_usage_and_done() -> None:
    event = ResponseEnded(ended(message("a"), usage=Usage(1, 2)))
    assert begin(ChatStyle()).write(event).count(b"data: ") == 2
    *frames, done, _ = begin(ChatStyle(streams_usage=True)).write(event).split(b"\n\n")
    last, usage = (json.loads(frame.removeprefix(b"data: ")) for frame in frames)
    assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "stop")
    assert (last["usage"], usage["choices"]) == (None, [])
    assert usage["usage"]["total_tokens"] == 3
    assert done + b"\n\n" == DONE
