"""Stop strings: found wherever they lie, and held back only while they may still come."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.stop_strings import StopStrings

TEXTS = st.text(alphabet="abc", max_size=40)
STOPS = st.lists(st.text(alphabet="abc", min_size=1, max_size=6), max_size=4)


def run(stops: Sequence[str], pieces: Sequence[str]) -> tuple[str, bool]:
    """All that comes out of the pieces, and whether the text stopped."""
    matcher = StopStrings(stops)
    shown = "".join(matcher.feed(piece) for piece in pieces)
    return shown + matcher.flush(), matcher.is_stopped


def define(stops: Sequence[str], text: str) -> tuple[str, bool]:
    """The text before the stop string that ends first; of those that end there, the longest."""
    for end in range(1, len(text) + 1):
        lengths = [len(stop) for stop in stops if text[:end].endswith(stop)]
        if lengths:
            return text[: end - max(lengths)], True
    return text, False


@given(STOPS, TEXTS, st.data())
def test_any_cutting_of_a_text_stops_where_the_whole_does(
    stops: list[str], text: str, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    edges = [0, *cuts, len(text)]
    pieces = [text[begin:end] for begin, end in zip(edges, edges[1:], strict=False)]
    assert run(stops, pieces) == define(stops, text)


@given(STOPS, st.lists(TEXTS, max_size=5))
def test_only_what_may_begin_a_stop_string_is_held_back(
    stops: list[str], pieces: list[str]
) -> None:
    matcher = StopStrings(stops)
    shown = ""
    for number, piece in enumerate(pieces, 1):
        shown += matcher.feed(piece)
        if matcher.is_stopped:
            return
        held = "".join(pieces[:number])[len(shown) :]
        assert held == "" or any(stop.startswith(held) and stop != held for stop in stops)


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["one STOP two"], "one "),
        (["one ST", "OP two"], "one "),
        (["one S", "T", "O", "P"], "one "),
        (["one ST", "ART"], "one START"),
        (["one ST"], "one ST"),
        (["STOP"], ""),
    ],
)
def test_a_stop_string_lies_inside_a_piece_or_across_some(pieces: list[str], shown: str) -> None:
    assert run(["STOP"], pieces)[0] == shown


def test_nothing_comes_after_the_stop() -> None:
    matcher = StopStrings(["."])
    assert [matcher.feed("a.b"), matcher.feed("c"), matcher.flush()] == ["a", "", ""]


def test_hostile_strings_take_linear_work() -> None:
    stop = "a" * 50_000 + "b"
    matcher = StopStrings([stop])
    assert matcher.feed("a" * 200_000) == "a" * 150_000
    assert matcher.feed("b") == ""
    assert matcher.is_stopped
