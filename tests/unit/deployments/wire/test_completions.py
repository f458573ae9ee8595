"""Log probabilities as Completions alone spells them, whole and token by token."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.resource.response import MessageItem, OutputText, Response
from deployments.wire.completions import CompletionStyle, LegacyLogprobs, to_completion, to_token
from engine.types import SampledLogprob, TokenLogprob
from tests.support.chat_oracles import check_body


def sampled(token: bytes, value: float = -1.0, *top: TokenLogprob) -> SampledLogprob:
    return SampledLogprob(TokenLogprob(token, value), top)


def offsets(*tokens: bytes) -> list[int]:
    found: list[int] = LegacyLogprobs().feed(tuple(map(sampled, tokens)))["text_offset"]
    return found


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"Hi", "Hi"),
        ("é".encode(), "é"),
        (b"", ""),
        (b"\xf0\x9f", "bytes:\\xf0\\x9f"),
        (b"a\xff", "bytes:\\x61\\xff"),
    ],
)
def test_a_token_is_a_text_or_its_bytes(token: bytes, text: str) -> None:
    assert to_token(TokenLogprob(token, 0.0)) == text


def test_offsets_count_characters() -> None:
    assert offsets(b"Hi", " é".encode(), b"!") == [0, 2, 4]


def test_a_token_inside_a_character_has_that_characters_offset() -> None:
    heart = "💛".encode()
    assert offsets(b"a", heart[:1], heart[1:3], heart[3:] + b"b", b"c") == [0, 1, 1, 1, 3]


def test_what_is_no_character_counts_as_the_one_that_stands_in_its_place() -> None:
    assert offsets(b"\xff", b"a", b"\xf0\x9f", b"b") == [0, 1, 2, 2]


def test_the_sampled_token_is_among_the_alternatives_once() -> None:
    likely, sampled_one = TokenLogprob(b"a", -0.1), TokenLogprob(b"b", -2.0)
    lists = LegacyLogprobs().feed(
        (
            SampledLogprob(likely, (likely,)),
            SampledLogprob(sampled_one, (likely,)),
            SampledLogprob(likely, ()),
        )
    )
    assert lists["top_logprobs"] == [{"a": -0.1}, {"a": -0.1, "b": -2.0}, {"a": -0.1}]
    assert lists["token_logprobs"] == [-0.1, -2.0, -0.1]


@given(st.lists(st.binary(max_size=3), max_size=9), st.integers(0, 9))
def test_however_the_tokens_are_cut_the_lists_are_the_same(tokens: list[bytes], cut: int) -> None:
    whole, pieces = LegacyLogprobs(), LegacyLogprobs()
    all_of_them = tuple(map(sampled, tokens))
    first, second = pieces.feed(all_of_them[:cut]), pieces.feed(all_of_them[cut:])
    assert whole.feed(all_of_them) == {name: first[name] + second[name] for name in first}


@pytest.mark.parametrize("has_logprobs", [False, True])
def test_lists_are_there_where_they_were_asked_for(has_logprobs: bool) -> None:
    message = MessageItem("msg_1", "completed", (OutputText("a", (sampled(b"a"),)),))
    response = Response("cmpl_1", 1, "completed", "scripted", (message,))
    body: dict[str, Any] = to_completion(response, CompletionStyle(has_logprobs))
    check_body(body)
    assert (body["choices"][0]["logprobs"] is not None) == has_logprobs
