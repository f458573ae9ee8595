"""When events are handed over: first texts and ends at once, other text within the hold."""

from engine.errors import GenerationFailedError
from engine.outbox import Emitted, Outbox
from engine.types import GenerationFinished, SampledLogprob, TextDelta, TokenLogprob

HOLD_S = 0.015
STEP_S = 0.004
LOGPROB = SampledLogprob(TokenLogprob(b"x", -1.0), ())


def text(name: str, number: int, of: str = "x") -> Emitted:
    return name, TextDelta(of, number, (LOGPROB,))


def make_streaming(*names: str) -> Outbox:
    """An outbox whose generations have had their first text."""
    outbox = Outbox(HOLD_S)
    outbox.add([text(name, 1) for name in names], 0.0)
    assert len(outbox.take(0.0, STEP_S)) == len(names)
    return outbox


def test_the_first_text_of_a_generation_goes_at_once_with_all_that_waits() -> None:
    outbox = make_streaming("a")
    outbox.add([text("a", 2)], 1.0)
    assert outbox.take(1.0, STEP_S) == []
    outbox.add([text("b", 1)], 1.004)
    assert outbox.take(1.004, STEP_S) == [text("a", 2), text("b", 1)]


def test_later_text_waits_as_long_as_another_step_fits_into_the_hold() -> None:
    outbox = make_streaming("a")
    taken = []
    for number in range(2, 6):
        now_s = 1.0 + number * STEP_S
        outbox.add([text("a", number, str(number))], now_s)
        taken.append(outbox.take(now_s, STEP_S))
    assert taken == [[], [], [], [("a", TextDelta("2345", 5, (LOGPROB,) * 4))]]


def test_text_does_not_wait_for_a_step_longer_than_the_hold() -> None:
    outbox = make_streaming("a")
    outbox.add([text("a", 2)], 1.0)
    assert outbox.take(1.0, 0.1) == [text("a", 2)]
    assert outbox.take(9.0, 0.1) == []


def test_ends_and_errors_go_at_once_and_after_the_text_before_them() -> None:
    for end in (GenerationFinished("stop", 3), GenerationFailedError("it failed")):
        outbox = make_streaming("a", "b")
        outbox.add([text("a", 2), text("b", 2), ("a", end)], 1.0)
        assert outbox.take(1.0, STEP_S) == [text("a", 2), ("a", end), text("b", 2)]


def test_a_name_that_is_used_again_has_a_first_text_again() -> None:
    outbox = make_streaming("a")
    outbox.add([("a", GenerationFinished("stop", 1))], 1.0)
    outbox.take(1.0, STEP_S)
    outbox.add([text("a", 1)], 2.0)
    assert outbox.take(2.0, STEP_S) == [text("a", 1)]
