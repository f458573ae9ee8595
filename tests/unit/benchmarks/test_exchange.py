"""What is sent for one request, and what is read out of the events that come back."""

import json
from collections.abc import Sequence

import pytest

from benchmarks.exchange import (
    INSTRUCTION,
    WORDS,
    Exchange,
    ExchangeReader,
    find_error,
    find_text,
    is_end,
    make_body,
    make_prompt,
)

RESPONSES_STREAM = [
    {"type": "response.created", "response": {"status": "in_progress", "usage": None}},
    {"type": "response.output_item.added", "item": {"type": "message"}},
    {"type": "response.output_text.delta", "delta": "a"},
    {"type": "response.output_text.delta", "delta": " b"},
    {"type": "response.output_text.done", "text": "a b"},
    {
        "type": "response.completed",
        "response": {
            "usage": {
                "input_tokens": 9,
                "input_tokens_details": {"cached_tokens": 4},
                "output_tokens": 5,
            },
            "error": None,
        },
    },
]
CHAT_STREAM = [
    {"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}]},
    {"choices": [{"delta": {"content": "a"}, "finish_reason": None}], "usage": None},
    {"choices": [{"delta": {"content": " b"}, "finish_reason": None}]},
    {"choices": [{"delta": {}, "finish_reason": "length"}]},
    {
        "choices": [],
        "usage": {
            "prompt_tokens": 9,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens": 5,
        },
    },
]
COMPLETIONS_STREAM = [
    {"choices": [{"text": "a", "finish_reason": None}]},
    {"choices": [{"text": " b", "finish_reason": None}]},
    {"choices": [{"text": "", "finish_reason": "length"}]},
    CHAT_STREAM[-1],
]


def read(payloads: Sequence[object]) -> Exchange:
    """The exchange of a request sent at 10 s whose events come a second apart."""
    reader = ExchangeReader(sent_s=10)
    for at_s, payload in enumerate(payloads, start=11):
        reader.feed(json.dumps(payload), at_s)
    return reader.finish()


@pytest.mark.parametrize(
    ("payloads", "ttft_s"),
    [(RESPONSES_STREAM, 3), (CHAT_STREAM, 2), (COMPLETIONS_STREAM, 1)],
    ids=["responses", "chat", "completions"],
)
def test_every_api_says_the_same(payloads: Sequence[object], ttft_s: float) -> None:
    assert read(payloads) == Exchange(
        error=None,
        ttft_s=ttft_s,
        gaps_s=(1,),
        output_tokens=5,
        is_estimate=False,
        prompt_tokens=9,
        cached_tokens=4,
    )


def test_without_usage_each_piece_counts_as_one_token() -> None:
    exchange = read(CHAT_STREAM[:-1])
    assert (exchange.output_tokens, exchange.is_estimate) == (2, True)


def test_a_usage_of_zero_tokens_is_believed() -> None:
    exchange = read(
        [{"choices": [{"text": "a", "finish_reason": "stop"}], "usage": {"completion_tokens": 0}}]
    )
    assert (exchange.output_tokens, exchange.is_estimate) == (0, False)


def test_usage_that_comes_before_the_end_stays() -> None:
    assert read([CHAT_STREAM[-1], *CHAT_STREAM[:-1]]).output_tokens == 5


def test_a_stream_without_text_has_no_first_piece() -> None:
    exchange = read([CHAT_STREAM[0], CHAT_STREAM[3]])
    assert (exchange.error, exchange.ttft_s, exchange.gaps_s) == (None, None, ())


def test_a_stream_that_stops_short_of_its_end_failed() -> None:
    assert read(RESPONSES_STREAM[:-1]).error == "the stream ended early"


def test_done_is_an_end() -> None:
    reader = ExchangeReader(sent_s=0)
    reader.feed("[DONE]", 1)
    assert reader.finish().error is None


def test_data_that_is_no_json_is_an_error_and_not_a_crash() -> None:
    reader = ExchangeReader(sent_s=0)
    reader.feed("<html>", 1)
    assert reader.finish().error == "not JSON: '<html>'"


def test_the_first_error_of_a_stream_stays() -> None:
    reader = ExchangeReader(sent_s=0)
    reader.feed('{"error": {"message": "first"}}', 1)
    reader.feed('{"error": {"message": "second"}}', 2)
    assert reader.finish().error == "first"


def test_an_error_of_the_connection_outweighs_those_of_the_stream() -> None:
    reader = ExchangeReader(sent_s=0)
    reader.feed('{"error": {"message": "no room"}}', 1)
    assert reader.finish("ReadError: gone").error == "ReadError: gone"


def test_an_error_is_one_line_and_no_essay() -> None:
    error = ExchangeReader(sent_s=0).finish("<html>\n  no\troom\n" + 300 * "x").error
    assert error == "<html> no room " + 185 * "x"


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ({"type": "response.failed", "response": {"error": {"message": "no room"}}}, "no room"),
        ({"type": "response.failed", "response": {"error": None}}, "response.failed"),
        ({"type": "error", "message": "no room", "code": "x"}, "no room"),
        ({"error": {"message": "no room"}}, "no room"),
        ({"error": "no room"}, "no room"),
        ({"error": None, "choices": []}, None),
        (["error"], None),
    ],
)
def test_an_error_is_found_in_any_spelling(payload: object, error: str | None) -> None:
    assert find_error(payload) == error


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "response.reasoning_text.delta", "delta": "hm"},
        {"choices": [{"delta": {"content": None, "reasoning": "hm"}}]},
        {"choices": [{"delta": {"content": "", "reasoning_content": "hm"}}]},
    ],
)
def test_reasoning_is_output_that_a_user_waits_for(payload: object) -> None:
    assert find_text(payload) == "hm"


@pytest.mark.parametrize("payload", [None, 3, [], {}, {"choices": []}, {"choices": [None]}])
def test_an_event_of_unknown_shape_says_nothing(payload: object) -> None:
    assert (find_text(payload), find_error(payload), is_end(payload)) == ("", None, False)


def test_a_prompt_is_decided_by_its_seed() -> None:
    assert make_prompt("0/1/0/0", 100) == make_prompt("0/1/0/0", 100)
    assert make_prompt("0/1/0/0", 100) != make_prompt("1/1/0/0", 100)


def test_prompts_differ_from_their_first_words_on() -> None:
    starts = [tuple(make_prompt(str(seed), 100).split()[:4]) for seed in range(200)]
    assert len(set(starts)) == len(starts)


def test_a_prompt_has_as_many_words_as_are_missing_to_its_tokens() -> None:
    words = make_prompt("seed", 100).removesuffix(INSTRUCTION).split()
    assert len(words) == 84
    assert set(words) <= set(WORDS)


def test_the_shortest_prompt_still_has_a_word() -> None:
    assert make_prompt("seed", 1).removesuffix(INSTRUCTION) in WORDS


def test_a_body_is_in_the_words_of_its_api() -> None:
    assert make_body("responses", "m", "p", 8, 0.5) == {
        "model": "m",
        "temperature": 0.5,
        "stream": True,
        "input": "p",
        "max_output_tokens": 8,
        "store": False,
    }
    chat = {
        "model": "m",
        "temperature": 0.5,
        "stream": True,
        "max_tokens": 8,
        "stream_options": {"include_usage": True},
    }
    assert make_body("completions", "m", "p", 8, 0.5) == chat | {"prompt": "p"}
    messages = [{"role": "user", "content": "p"}]
    assert make_body("chat", "m", "p", 8, 0.5) == chat | {"messages": messages}
