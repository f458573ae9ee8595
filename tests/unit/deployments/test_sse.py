"""An event is a few bytes that every reader cuts at the same places."""

import json
import math

import pytest

from deployments.sse import COMMENT, DONE, encode_data, encode_event, encode_json

AWKWARD = {
    "line ends": "a\nb\r\nc\rd\n\n",
    "ends of a line elsewhere": "a\u2028b\u2029c\x85d\x0be\x0cf",
    "beyond the basic plane": "🙂👩‍👩‍👧",
    "quotes and escapes": '"\\/\b\t',
    "control characters": "\x00\x1f\x7f",
    "looks like an event": "event: x\n\ndata: [DONE]\n\n",
    "a byte order mark": "\ufeff",
}


def test_an_event_is_its_name_and_one_line_of_compact_json() -> None:
    assert encode_event("response.created", {"a": [1, None], "b": "é"}) == (
        'event: response.created\ndata: {"a":[1,null],"b":"é"}\n\n'.encode()
    )


@pytest.mark.parametrize("text", AWKWARD.values(), ids=list(AWKWARD))
def test_any_text_stays_in_one_data_line(text: str) -> None:
    event = encode_event("x", {"delta": text})
    name, data, *rest = event.split(b"\n")
    assert (name, rest) == (b"event: x", [b"", b""])
    assert b"\r" not in event
    assert json.loads(data.removeprefix(b"data: ")) == {"delta": text}


def test_text_beyond_ascii_is_sent_as_it_is() -> None:
    assert encode_json("é\u2028🙂").decode() == '"é\u2028🙂"'


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_in_json_breaks_no_stream(value: float) -> None:
    assert encode_json({"a": [value]}) == b'{"a":[null]}'
    assert encode_event("x", value) == b"event: x\ndata: null\n\n"


@pytest.mark.parametrize(
    "value", ["\ud800", b"\xff", object()], ids=["surrogate", "bytes", "object"]
)
def test_what_is_no_json_is_refused(value: object) -> None:
    for encode in (encode_json, encode_data, lambda value: encode_event("x", value)):
        with pytest.raises(ValueError, match="serializ"):
            encode({"a": value})


def test_numbers_are_read_as_they_were() -> None:
    numbers = [0, -1, 2**53, 2**63, 10**30, 0.1, -0.0, 1e16, 1e-7, 5e-324, 1.7976931348623157e308]
    assert json.loads(encode_json(numbers)) == numbers


def test_the_end_of_a_stream_is_what_openai_sends() -> None:
    assert DONE == b"data: [DONE]\n\n"


@pytest.mark.parametrize("text", AWKWARD.values(), ids=list(AWKWARD))
def test_an_event_without_a_name_is_its_data_alone(text: str) -> None:
    data, *rest = encode_data({"delta": text}).split(b"\n")
    assert (data[:6], rest) == (b"data: ", [b"", b""])
    assert json.loads(data[6:]) == {"delta": text}


def test_a_comment_is_one_that_no_reader_takes_for_an_event() -> None:
    assert COMMENT.startswith(b":")
    assert COMMENT.endswith(b"\n\n")
    assert COMMENT.count(b"\n") == 2
