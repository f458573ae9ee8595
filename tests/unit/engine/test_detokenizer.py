"""The detokenizer: no character before its last byte, no byte lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.detokenizer import Detokenizer

BYTES = [bytes([byte]) for byte in range(256)]


def detokenize(data: bytes) -> str:
    detokenizer = Detokenizer(BYTES, hidden=())
    return "".join([*(detokenizer.feed(byte) for byte in data), detokenizer.flush()])


@given(st.text())
def test_text_that_comes_byte_by_byte_is_the_text(text: str) -> None:
    assert detokenize(text.encode()) == text


@given(st.binary())
def test_broken_bytes_give_what_a_decoder_of_the_whole_gives(data: bytes) -> None:
    assert detokenize(data) == data.decode("utf-8", "replace")


def test_a_character_comes_out_with_its_last_byte() -> None:
    detokenizer = Detokenizer([*BYTES, "👩‍👩‍👧".encode()], hidden=())
    assert [detokenizer.feed(byte) for byte in "🎨".encode()] == ["", "", "", "🎨"]
    assert detokenizer.feed(256) == "👩‍👩‍👧"


@pytest.mark.parametrize("token_id", [2, 256, 1_000_000])
def test_special_and_unknown_ids_have_no_text(token_id: int) -> None:
    assert Detokenizer(BYTES, hidden={2}).feed(token_id) == ""
