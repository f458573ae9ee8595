"""An event is a few bytes that every reader cuts at the same places."""

import json
import math

import pytest

from deployments.sse import DONE, encode_event, to_json

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
    assert to_json("é\u2028🙂") == '"é\u2028🙂"'


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_in_json_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json({"a": [value]})


def test_the_end_of_a_stream_is_what_openai_sends() -> None:
    assert DONE == b"data: [DONE]\n\n"
