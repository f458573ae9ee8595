"""The text that may be shown, and the log probabilities that belong to it."""

from engine.detokenizer import Detokenizer
from engine.output_text import OutputText, Piece
from engine.sequence import SampledToken
from engine.stop_strings import StopStrings
from engine.types import SampledLogprob, TokenLogprob

VOCABULARY = [b"<s>", b"a", b"b", b"\xf0\x9f", b"\x8e\xa8", b"ab"]


def make_output(*stops: str) -> OutputText:
    return OutputText(Detokenizer(VOCABULARY, hidden={0}), StopStrings(stops))


def token(token_id: int) -> SampledToken:
    return SampledToken(token_id, -float(token_id), ((token_id, -float(token_id)), (99, -9.0)))


def logprob(token_id: int) -> SampledLogprob:
    own = TokenLogprob(VOCABULARY[token_id], -float(token_id))
    return SampledLogprob(own, (own, TokenLogprob(b"", -9.0)))


def test_text_comes_with_the_log_probabilities_of_its_tokens() -> None:
    output = make_output()
    assert output.feed(token(1)) == Piece("a", (logprob(1),))
    assert output.feed(SampledToken(2)) == Piece("b")


def test_a_character_of_two_tokens_comes_with_both() -> None:
    output = make_output()
    assert output.feed(token(3)) == Piece("")
    assert output.feed(token(4)) == Piece("🎨", (logprob(3), logprob(4)))


def test_what_is_held_back_keeps_its_log_probabilities_until_it_is_shown() -> None:
    output = make_output("abc")
    assert output.feed(token(1)) == Piece("")
    assert output.feed(token(2)) == Piece("")
    assert output.feed(token(1)) == Piece("ab", (logprob(1), logprob(2)))
    assert output.flush() == Piece("a", (logprob(1),))


def test_tokens_of_a_stop_string_are_not_told_and_one_cut_in_its_middle_neither() -> None:
    output = make_output("ba")
    assert output.feed(token(5)) == Piece("a")
    assert output.feed(token(1)) == Piece("")
    assert output.is_stopped
    assert output.flush() == Piece("")


def test_special_tokens_have_neither_text_nor_log_probability() -> None:
    output = make_output()
    assert output.feed(token(0)) == Piece("")
    assert output.feed(token(1)) == Piece("a", (logprob(1),))


def test_an_unfinished_character_at_the_end_becomes_its_replacement() -> None:
    output = make_output()
    output.feed(token(3))
    assert output.flush() == Piece("\ufffd", (logprob(3),))


def test_even_a_replacement_character_can_stop_a_text() -> None:
    output = make_output("a\ufffd")
    assert output.feed(token(1)) == Piece("")
    output.feed(token(3))
    assert output.flush() == Piece("")
    assert output.is_stopped
