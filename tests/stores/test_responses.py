"""How a store keeps and forgets single responses, whatever keeps the texts."""

from dataclasses import replace

import pytest

from stores.types import Bounds, RecordStatus, ResponseRecord, StoreBounds
from tests.stores.conftest import MakeStore
from tests.stores.under_test import PLENTY, ManualClock, make_item, make_record

RECORD_BYTES = make_record("a").size_bytes
ENDS: list[RecordStatus] = ["completed", "incomplete", "failed", "cancelled"]


def test_a_store_tells_its_bounds(make_store: MakeStore) -> None:
    bounds = StoreBounds(Bounds(1, 2, 3), Bounds(4, 5, 6))
    assert make_store(bounds.responses, bounds.conversations).store.bounds == bounds


@pytest.mark.parametrize("status", ENDS)
def test_a_record_comes_back_without_its_input(make_store: MakeStore, status: RecordStatus) -> None:
    caller = make_store()
    caller.finish("p")
    record = make_record("a", status=status, body='{"é": "✓"}', parent="p", new="i", out="o u")
    caller.store.finish(record)
    assert caller.store.get("a", "alice") == replace(record, input=())


def test_a_running_record_comes_back_without_its_input(make_store: MakeStore) -> None:
    caller = make_store()
    caller.finish("p")
    link = caller.link("x")
    record = make_record("a", status="in_progress", parent="p", link=link, new="i", out="o")
    caller.store.begin(record)
    assert caller.store.get("a", "alice") == replace(record, input=(), conversation=None)
    assert caller.store.list_running() == (replace(record, input=()),)


@pytest.mark.parametrize("text", ["\ud83d", "a\0b", "'; DROP TABLE items; --", "", "😀"])
def test_any_text_survives(make_store: MakeStore, text: str) -> None:
    caller = make_store()
    item = make_item(f"i{text}", text)
    record = ResponseRecord(f"r{text}", text, "completed", 1, text, output=(item,))
    caller.store.finish(record)
    assert caller.store.get(f"r{text}", text) == record


def test_an_unknown_id_is_none_and_nothing_to_delete(make_store: MakeStore) -> None:
    caller = make_store()
    assert caller.store.get("a", "alice") is None
    assert caller.inputs("a") is None
    assert caller.store.delete("a", "alice") is False


def test_an_end_takes_the_place_of_what_ran(make_store: MakeStore) -> None:
    caller = make_store()
    caller.begin("a", body="begun")
    caller.finish("a", body="ended", out="o")
    assert caller.store.get("a", "alice") == make_record("a", body="ended", out="o")
    assert caller.store.list_running() == ()


def test_the_input_is_that_of_the_beginning(make_store: MakeStore) -> None:
    caller = make_store()
    caller.begin("a", new="i j")
    caller.finish("a", new="other", out="o")
    assert caller.inputs("a") == ["i", "j"]
    assert caller.found("other") == []


def test_the_first_end_counts(make_store: MakeStore) -> None:
    caller = make_store()
    caller.begin("a")
    caller.finish("a", status="cancelled", body="first")
    caller.finish("a", status="completed", body="second", out="o")
    assert caller.store.get("a", "alice") == make_record("a", status="cancelled", body="first")
    assert caller.found("o") == []


def test_a_response_given_up_for_lost_may_still_end_well(
    make_store: MakeStore, clock: ManualClock
) -> None:
    caller = make_store(replace(PLENTY, ttl_s=10))
    caller.finish("p", out="o")
    caller.begin("a", parent="p", new="i")
    caller.finish("a", status="failed", body="lost")
    caller.store.delete("p", "alice")
    clock.now_s = 9
    caller.finish("a", body="good", out="u")
    clock.now_s = 15
    assert caller.history("a") == ["o", "i", "u"]
    record = caller.store.get("a", "alice")
    assert record is not None and (record.status, record.body) == ("completed", "good")


def test_a_second_beginning_changes_nothing(make_store: MakeStore) -> None:
    caller = make_store()
    caller.begin("a", body="first", new="i")
    caller.begin("a", body="second", new="j")
    assert caller.inputs("a") == ["i"]
    caller.finish("a", body="ended")
    caller.begin("a", body="third")
    assert caller.store.get("a", "alice") == make_record("a", body="ended")
    assert caller.store.list_running() == ()


@pytest.mark.parametrize("status", ["in_progress", *ENDS])
def test_a_deleted_record_is_gone(make_store: MakeStore, status: RecordStatus) -> None:
    caller = make_store()
    record = make_record("a", status=status, new="i", out="o")
    (caller.store.begin if status == "in_progress" else caller.store.finish)(record)
    assert caller.store.delete("a", "alice") is True
    assert caller.store.get("a", "alice") is None
    assert caller.inputs("a") is None
    assert caller.store.list_running() == ()
    assert caller.store.delete("a", "alice") is False
    assert caller.found("i", "o") == []


def test_a_record_deleted_while_it_ran_stays_gone(make_store: MakeStore) -> None:
    caller = make_store()
    caller.begin("a", new="i")
    caller.store.delete("a", "alice")
    caller.begin("a", new="i")
    assert caller.has("a") == []
    caller.finish("a", new="i", out="o")
    assert caller.has("a") == []
    assert caller.found("i", "o") == []


@pytest.mark.parametrize("status", ["in_progress", "completed"])
def test_another_owners_record_is_exactly_like_none(
    make_store: MakeStore, status: RecordStatus
) -> None:
    caller = make_store()
    record = make_record("a", status=status, owner="bob", out="o")
    (caller.store.begin if status == "in_progress" else caller.store.finish)(record)
    assert caller.has("a") == []
    assert caller.inputs("a") is None
    assert caller.history("a") == []
    assert caller.found("o") == []
    assert caller.store.delete("a", "alice") is False
    assert caller.store.get("a", "bob") == replace(record, input=())


def test_one_id_under_two_owners_is_two_records(make_store: MakeStore) -> None:
    caller = make_store()
    caller.store.finish(make_record("a", body="hers"))
    caller.store.finish(make_record("a", body="his", owner="bob"))
    assert caller.store.delete("a", "bob") is True
    assert caller.store.get("a", "alice") == make_record("a", body="hers")


# ── bounds ───────────────────────────────────────────────────────────────────────────────────────


def test_the_least_recently_used_goes_beyond_the_entries(make_store: MakeStore) -> None:
    caller = make_store(replace(PLENTY, max_entries=3))
    for response_id in ("a", "b", "c", "d"):
        caller.finish(response_id)
    assert caller.has("a", "d", "c", "b") == ["d", "c", "b"]
    caller.finish("e")
    assert caller.has("b", "c", "d", "e") == ["b", "c", "e"]


@pytest.mark.parametrize("use", ["get", "list", "chain", "begin"])
def test_a_read_is_a_use(make_store: MakeStore, use: str) -> None:
    caller = make_store(replace(PLENTY, max_entries=2))
    caller.finish("a")
    caller.finish("b")
    match use:
        case "get":
            caller.store.get("a", "alice")
        case "list":
            caller.inputs("a")
        case "chain":
            caller.history("a")
        case "begin":
            caller.begin("child", parent="a")
    caller.finish("c")
    assert caller.has("a", "b", "c") == ["a", "c"]


def test_asking_for_another_owners_record_is_no_use_of_it(make_store: MakeStore) -> None:
    caller = make_store(replace(PLENTY, max_entries=2))
    caller.finish("a")
    caller.finish("b")
    caller.store.get("a", "bob")
    caller.store.delete("a", "bob")
    caller.finish("c")
    assert caller.has("a", "b", "c") == ["b", "c"]


def test_as_many_go_as_it_takes_to_free_the_bytes(make_store: MakeStore) -> None:
    caller = make_store(replace(PLENTY, max_bytes=4 * RECORD_BYTES))
    for response_id in ("a", "b", "c", "d"):
        caller.finish(response_id)
    caller.finish("e", body="x" * RECORD_BYTES)
    assert caller.has("a", "b", "c", "d", "e") == ["c", "d", "e"]


def test_a_record_that_fills_the_bytes_exactly_is_kept(make_store: MakeStore) -> None:
    record = make_record("a", body="é", new="i j", out="o")
    caller = make_store(replace(PLENTY, max_bytes=record.size_bytes))
    caller.store.finish(record)
    assert caller.has("a") == ["a"]


def test_a_record_larger_than_all_bytes_evicts_nothing(make_store: MakeStore) -> None:
    record = make_record("c", new="i j", out="o")
    caller = make_store(replace(PLENTY, max_bytes=record.size_bytes - 1))
    caller.finish("a")
    caller.store.finish(record)
    assert caller.has("a", "c") == ["a"]
    assert caller.found("i", "j", "o") == []


def test_a_record_that_has_no_room_takes_its_own_old_version_with_it(
    make_store: MakeStore,
) -> None:
    caller = make_store(replace(PLENTY, max_bytes=2 * RECORD_BYTES))
    caller.finish("b")
    caller.begin("a")
    caller.finish("a", status="failed")
    caller.finish("a", body="x" * 2 * RECORD_BYTES)
    assert caller.has("a", "b") == ["b"]


def test_a_record_lives_for_the_ttl_and_a_read_does_not_extend_it(
    make_store: MakeStore, clock: ManualClock
) -> None:
    caller = make_store(replace(PLENTY, ttl_s=10))
    caller.finish("a")
    clock.now_s = 9.5
    assert caller.has("a") == ["a"]
    clock.now_s = 10
    assert caller.has("a") == []
    assert caller.store.delete("a", "alice") is False


def test_an_expired_record_makes_room_before_a_living_one_is_evicted(
    make_store: MakeStore, clock: ManualClock
) -> None:
    caller = make_store(Bounds(max_entries=2, max_bytes=2 * RECORD_BYTES, ttl_s=10))
    caller.finish("a")
    clock.now_s = 5
    caller.finish("b")
    caller.has("a")
    clock.now_s = 10
    caller.finish("c")
    assert caller.has("b", "c") == ["b", "c"]


def test_a_ttl_of_zero_lets_nothing_expire(make_store: MakeStore, clock: ManualClock) -> None:
    caller = make_store(replace(PLENTY, ttl_s=0))
    caller.finish("a")
    clock.now_s = 1e9
    assert caller.has("a") == ["a"]


def test_a_clock_that_goes_back_stands_still_for_the_store(
    make_store: MakeStore, clock: ManualClock
) -> None:
    caller = make_store(replace(PLENTY, ttl_s=10))
    clock.now_s = 100
    caller.finish("a")
    clock.now_s = 50
    caller.finish("b")
    clock.now_s = 105
    assert caller.has("a", "b") == ["a", "b"]
    clock.now_s = 110
    assert caller.has("a", "b") == []


def test_what_runs_is_neither_evicted_nor_expired_nor_counted(
    make_store: MakeStore, clock: ManualClock
) -> None:
    caller = make_store(Bounds(max_entries=1, max_bytes=RECORD_BYTES, ttl_s=10))
    caller.begin("a", body="x" * 2 * RECORD_BYTES)
    caller.begin("b", new="i")
    caller.finish("c")
    assert caller.has("a", "b", "c") == ["a", "b", "c"]
    clock.now_s = 1000
    assert caller.has("a", "b", "c") == ["a", "b"]


def test_a_record_counts_from_its_end(make_store: MakeStore, clock: ManualClock) -> None:
    caller = make_store(Bounds(max_entries=1, max_bytes=10_000, ttl_s=10))
    caller.begin("a")
    caller.finish("b")
    clock.now_s = 8
    caller.finish("a")
    clock.now_s = 17
    assert caller.has("a", "b") == ["a"]
    clock.now_s = 18
    assert caller.has("a") == []


def test_no_bytes_keep_what_runs_and_nothing_that_has_ended(make_store: MakeStore) -> None:
    caller = make_store(replace(PLENTY, max_bytes=0))
    caller.begin("a", new="i")
    assert caller.has("a") == ["a"]
    caller.finish("a")
    assert caller.has("a") == []
    assert caller.found("i") == []
