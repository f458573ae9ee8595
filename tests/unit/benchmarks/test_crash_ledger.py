"""What counts as lost and as a stranger: a benchmark that never finds anything proves nothing."""

from typing import Any

import pytest

from benchmarks.crash_ledger import (
    Attempt,
    End,
    Json,
    Kept,
    Ledger,
    find_difference,
    find_missing,
    find_strangers,
    find_wrong_turn,
)


def answer(text: str) -> Json:
    return {"id": f"msg_{text}", "role": "assistant", "content": [{"text": text}]}


def ask(attempt: Attempt) -> Json:
    return {"role": "user", "content": [{"type": "input_text", "text": attempt.text}]}


def make(tag: str, end: End = "acknowledged", response_id: str | None = None) -> Attempt:
    reply = {"id": f"resp_{tag}", "status": "completed", "output": [answer(tag)]}
    if end != "acknowledged":
        return Attempt(tag, end=end, response_id=response_id)
    return Attempt(tag, end=end, response_id=f"resp_{tag}", reply=reply)


def turn(attempt: Attempt) -> list[Json]:
    return [ask(attempt), answer(attempt.tag)]


ONE, TWO, CUT, UNSENT = make("1"), make("2"), make("3", "cut"), make("4", "unsent")


def test_a_response_that_is_as_it_was_told_has_no_difference() -> None:
    assert find_difference(ONE, {**(ONE.reply or {}), "more": 1}) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("status", "failed"), ("output", []), ("usage", {"total_tokens": 1}), ("id", "resp_2")],
)
def test_each_field_that_was_told_counts(name: str, value: Any) -> None:
    difference = find_difference(ONE, {**(ONE.reply or {}), name: value})
    assert difference is not None
    assert difference.startswith(name)


@pytest.mark.parametrize(
    "items",
    [
        [*turn(ONE), *turn(TWO)],
        [*turn(ONE), *turn(CUT), *turn(TWO)],
        [*turn(ONE), ask(CUT), *turn(TWO)],
    ],
    ids=["without the cut one", "with it", "with one that said nothing"],
)
def test_acknowledged_turns_must_be_there_and_cut_ones_may(items: list[Json]) -> None:
    assert find_wrong_turn(items, [ONE, CUT, UNSENT, TWO]) is None


@pytest.mark.parametrize(
    ("items", "fault"),
    [
        (turn(ONE), "the last turn is missing"),
        (turn(TWO), "a turn is missing before 'Say 2.'"),
        ([*turn(TWO), *turn(ONE)], "a turn is missing before 'Say 2.'"),
        ([*turn(ONE), *turn(ONE), *turn(TWO)], "a turn is missing before 'Say 1.'"),
        ([*turn(ONE), *turn(UNSENT), *turn(TWO)], "'Say 4.' does not belong there"),
        ([*turn(ONE), *turn(TWO), *turn(make("9"))], "'Say 9.' does not belong there"),
        ([*turn(ONE), ask(TWO), answer("else")], "the output of 'Say 2.' is another"),
        ([*turn(ONE), ask(TWO)], "the output of 'Say 2.' is another"),
        ([answer("1"), *turn(TWO)], "a turn is missing before ''"),
    ],
)
def test_what_else_is_in_a_conversation_is_a_fault(items: list[Json], fault: str) -> None:
    assert find_wrong_turn(items, [ONE, CUT, UNSENT, TWO]) == fault


def test_the_input_of_a_response_ends_with_its_own_message() -> None:
    assert find_wrong_turn([*turn(ONE), ask(TWO)], [ONE], TWO) is None
    assert find_wrong_turn(turn(ONE), [ONE], TWO) == "the last item is not its own message"
    assert find_wrong_turn([], [], TWO) == "the last item is not its own message"


def test_a_response_that_was_cut_may_be_kept_once() -> None:
    kept = [Kept("resp_1", "1", "completed"), Kept("resp_x", "3", "failed")]
    assert find_strangers(kept, [ONE, CUT]) == []
    (stranger,) = find_strangers([*kept, Kept("resp_y", "3", "completed")], [ONE, CUT])
    assert stranger.startswith("resp_y")


@pytest.mark.parametrize(
    "kept",
    [
        Kept("resp_x", None, "completed"),
        Kept("resp_x", "7", "completed"),
        Kept("resp_x", "4", "completed"),
        Kept("resp_x", "1", "completed"),
    ],
    ids=["no tag", "unknown tag", "never sent", "another id than was told"],
)
def test_what_nobody_asked_for_is_a_stranger(kept: Kept) -> None:
    assert len(find_strangers([kept], [ONE, CUT, UNSENT])) == 1


def test_an_acknowledged_response_that_is_not_in_the_file_is_missing() -> None:
    kept = [Kept("resp_1", "1", "completed")]
    assert find_missing(kept, [ONE, CUT]) == []
    assert len(find_missing(kept, [ONE, TWO])) == 1
    assert len(find_missing([Kept("resp_1", "1", "failed")], [ONE])) == 1


def test_a_ledger_knows_what_was_acknowledged_and_what_only_began() -> None:
    ledger = Ledger(kind="store")
    first, second = ledger.begin(), ledger.begin([ONE])
    assert first.tag != second.tag
    assert (second.kind, second.before) == ("store", (ONE,))
    second.response_id = "resp_2"
    ledger.attempts.append(ONE)
    assert (ledger.acknowledged, ledger.seen) == ([ONE], [second])
    assert ledger.count_ends() == {"open": 2, "acknowledged": 1}


def test_an_error_that_blames_the_client_is_a_refusal_where_it_is_the_servers_own() -> None:
    ledger = Ledger()
    ledger.errors.update(["404 None", "404 not_found", "503 model_loading", "ReadError"])
    assert ledger.refusals == ["404 not_found"]
