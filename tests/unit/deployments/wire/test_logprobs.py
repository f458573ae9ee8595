"""Log probabilities as clients read them, whatever the tokens and whatever the model computed."""

import json
import math

import pytest

from deployments.sse import encode_json
from deployments.wire.logprobs import FLOOR, to_finite, to_logprobs, to_text
from engine.types import SampledLogprob, TokenLogprob

HI = TokenLogprob(b"Hi", -0.25)


def test_each_token_comes_with_its_alternatives_in_their_order() -> None:
    sampled = SampledLogprob(HI, (TokenLogprob(b"Ho", -0.125), HI))
    assert to_logprobs((sampled, SampledLogprob(HI, ()))) == [
        {
            "token": "Hi",
            "bytes": [72, 105],
            "logprob": -0.25,
            "top_logprobs": [
                {"token": "Ho", "bytes": [72, 111], "logprob": -0.125},
                {"token": "Hi", "bytes": [72, 105], "logprob": -0.25},
            ],
        },
        {"token": "Hi", "bytes": [72, 105], "logprob": -0.25, "top_logprobs": []},
    ]


def test_where_none_were_asked_for_there_are_none() -> None:
    assert to_logprobs(()) == []


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"", ""),
        ("é".encode(), "é"),
        (b"\xf0\x9f", "\ufffd"),
        (b"\x99\x82", "\ufffd\ufffd"),
        (b"a\xff", "a\ufffd"),
        (b"\xed\xa0\xbd", "\ufffd\ufffd\ufffd"),  # a surrogate, which is no character
    ],
)
def test_a_token_that_is_no_text_still_has_its_bytes(token: bytes, text: str) -> None:
    (written,) = to_logprobs((SampledLogprob(TokenLogprob(token, 0.0), ()),))
    assert (to_text(TokenLogprob(token, 0.0)), written["token"]) == (text, text)
    assert bytes(written["bytes"]) == token
    assert json.loads(encode_json(written)) == written
    encode_json(written).decode()


@pytest.mark.parametrize(
    ("computed", "told"),
    [
        (0.0, 0.0),
        (-1e-30, -1e-30),
        (-9998.5, -9998.5),
        (-math.inf, FLOOR),
        (-1e300, FLOOR),
        (math.nan, FLOOR),
        (1e-7, 0.0),
        (math.inf, 0.0),
    ],
)
def test_a_log_probability_is_always_one_that_json_can_say(computed: float, told: float) -> None:
    assert to_finite(computed) == told
    token = TokenLogprob(b"x", computed)
    (written,) = to_logprobs((SampledLogprob(token, (token,)),))
    assert written["logprob"] == written["top_logprobs"][0]["logprob"] == told
    assert json.loads(encode_json(written)) == written
