"""What every response store does, whatever keeps its records."""

from collections.abc import Callable

import pytest

from stores.errors import StoreDisabledError
from stores.types import RecordStatus, ResponseRecord, ResponseStore, StoreBounds
from tests.stores.under_test import STORE_FACTORIES, ManualClock, make_record

RECORD_BYTES = make_record("a").size_bytes

MakeStore = Callable[..., ResponseStore]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=STORE_FACTORIES.values(), ids=list(STORE_FACTORIES))
def make_store(request: pytest.FixtureRequest, clock: ManualClock) -> MakeStore:
    def make(max_entries: int = 10, max_bytes: int = 1_000_000, ttl_s: int = 60) -> ResponseStore:
        store: ResponseStore = request.param(StoreBounds(max_entries, max_bytes, ttl_s), clock)
        return store

    return make


def kept(store: ResponseStore, *response_ids: str) -> list[str]:
    """Those of the ids that the store still has, read in this order."""
    return [i for i in response_ids if store.get(i, "alice") is not None]


def test_a_store_tells_its_bounds(make_store: MakeStore) -> None:
    assert make_store(3, 4000, 5).bounds == StoreBounds(max_entries=3, max_bytes=4000, ttl_s=5)


@pytest.mark.parametrize(
    "status", ["in_progress", "completed", "incomplete", "failed", "cancelled"]
)
def test_a_record_comes_back_as_it_was_put(make_store: MakeStore, status: RecordStatus) -> None:
    store = make_store()
    record = ResponseRecord("resp_1", "alice", status, 1_700_000_123, '{"text": "é ✓"}')
    store.put(record)
    assert store.get("resp_1", "alice") == record


def test_a_lone_surrogate_in_a_body_survives(make_store: MakeStore) -> None:
    store = make_store()
    record = make_record("a", body='{"text": "\ud83d"}')
    store.put(record)
    assert store.get("a", "alice") == record


def test_an_unknown_id_is_none_and_nothing_to_delete(make_store: MakeStore) -> None:
    store = make_store()
    assert store.get("a", "alice") is None
    assert store.delete("a", "alice") is False


def test_a_later_record_takes_the_place_of_the_one_with_its_id(make_store: MakeStore) -> None:
    store = make_store()
    store.put(make_record("a", status="in_progress", body="{}"))
    store.put(make_record("a", status="failed", body='{"error": 1}'))
    assert store.get("a", "alice") == make_record("a", status="failed", body='{"error": 1}')


@pytest.mark.parametrize("status", ["in_progress", "completed"])
def test_a_deleted_record_is_gone(make_store: MakeStore, status: RecordStatus) -> None:
    store = make_store()
    store.put(make_record("a", status=status))
    assert store.delete("a", "alice") is True
    assert store.get("a", "alice") is None
    assert store.delete("a", "alice") is False


def test_a_record_put_after_it_was_deleted_while_running_is_kept(make_store: MakeStore) -> None:
    store = make_store()
    store.put(make_record("a", status="in_progress"))
    store.delete("a", "alice")
    store.put(make_record("a"))
    assert store.get("a", "alice") == make_record("a")


@pytest.mark.parametrize("status", ["in_progress", "completed"])
def test_another_owners_record_is_exactly_like_none(
    make_store: MakeStore, status: RecordStatus
) -> None:
    store = make_store()
    record = make_record("a", status=status)
    store.put(record)
    assert store.get("a", "bob") is None
    assert store.delete("a", "bob") is False
    assert store.get("a", "alice") == record


@pytest.mark.parametrize("status", ["in_progress", "completed"])
def test_one_id_under_two_owners_is_two_records(
    make_store: MakeStore, status: RecordStatus
) -> None:
    store = make_store()
    store.put(make_record("a", status=status, body='"hers"'))
    store.put(make_record("a", status=status, body='"his"', owner="bob"))
    assert store.get("a", "alice") == make_record("a", status=status, body='"hers"')
    assert store.delete("a", "bob") is True
    assert store.get("a", "alice") == make_record("a", status=status, body='"hers"')


def test_the_least_recently_put_goes_beyond_the_entries(make_store: MakeStore) -> None:
    store = make_store(max_entries=2)
    for response_id in ("a", "b", "c"):
        store.put(make_record(response_id))
    assert kept(store, "a", "b", "c") == ["b", "c"]


def test_a_read_counts_as_a_use(make_store: MakeStore) -> None:
    store = make_store(max_entries=2)
    store.put(make_record("a"))
    store.put(make_record("b"))
    store.get("a", "alice")
    store.put(make_record("c"))
    assert kept(store, "a", "b", "c") == ["a", "c"]


def test_asking_for_another_owners_record_is_no_use_of_it(make_store: MakeStore) -> None:
    store = make_store(max_entries=2)
    store.put(make_record("a"))
    store.put(make_record("b"))
    store.get("a", "bob")
    store.delete("a", "bob")
    store.put(make_record("c"))
    assert kept(store, "a", "b", "c") == ["b", "c"]


def test_replacing_a_record_counts_as_a_use_and_evicts_nothing(make_store: MakeStore) -> None:
    store = make_store(max_entries=2)
    store.put(make_record("a"))
    store.put(make_record("b"))
    store.put(make_record("a", body="[]"))
    assert kept(store, "b", "a") == ["b", "a"]
    store.get("a", "alice")
    store.put(make_record("c"))
    assert kept(store, "a", "b", "c") == ["a", "c"]


def test_as_many_go_as_it_takes_to_free_the_bytes(make_store: MakeStore) -> None:
    store = make_store(max_bytes=4 * RECORD_BYTES)
    for response_id in ("a", "b", "c", "d"):
        store.put(make_record(response_id))
    store.put(make_record("e", body="x" * RECORD_BYTES))
    assert kept(store, "a", "b", "c", "d", "e") == ["c", "d", "e"]


def test_a_record_that_fills_the_bytes_exactly_is_kept(make_store: MakeStore) -> None:
    store = make_store(max_bytes=RECORD_BYTES)
    store.put(make_record("a"))
    assert kept(store, "a") == ["a"]


def test_a_record_larger_than_all_bytes_evicts_nothing(make_store: MakeStore) -> None:
    store = make_store(max_bytes=2 * RECORD_BYTES)
    store.put(make_record("a"))
    store.put(make_record("b"))
    store.put(make_record("c", body="x" * (RECORD_BYTES + 3)))
    assert kept(store, "a", "b", "c") == ["a", "b"]


@pytest.mark.parametrize("status", ["in_progress", "completed"])
def test_a_record_larger_than_all_bytes_takes_only_its_own_old_version_with_it(
    make_store: MakeStore, status: RecordStatus
) -> None:
    store = make_store(max_bytes=2 * RECORD_BYTES)
    store.put(make_record("a", status=status))
    store.put(make_record("b"))
    store.put(make_record("a", body="x" * 2 * RECORD_BYTES))
    assert kept(store, "a", "b") == ["b"]


def test_a_smaller_version_frees_the_bytes_of_the_larger(make_store: MakeStore) -> None:
    store = make_store(max_bytes=2 * RECORD_BYTES)
    store.put(make_record("a", body="x" * RECORD_BYTES))
    store.put(make_record("a"))
    store.put(make_record("b"))
    assert kept(store, "a", "b") == ["a", "b"]


def test_a_record_lives_for_the_ttl_and_no_longer(
    make_store: MakeStore, clock: ManualClock
) -> None:
    store = make_store(ttl_s=10)
    store.put(make_record("a"))
    clock.now_s = 9.5
    assert kept(store, "a") == ["a"]
    clock.now_s = 10
    assert kept(store, "a") == []
    assert store.delete("a", "alice") is False


def test_a_put_begins_a_new_life_and_a_read_does_not(
    make_store: MakeStore, clock: ManualClock
) -> None:
    store = make_store(ttl_s=10)
    store.put(make_record("read"))
    store.put(make_record("put"))
    clock.now_s = 9
    store.get("read", "alice")
    store.put(make_record("put"))
    clock.now_s = 11
    assert kept(store, "read", "put") == ["put"]


def test_an_expired_record_makes_room_before_a_living_one_is_evicted(
    make_store: MakeStore, clock: ManualClock
) -> None:
    store = make_store(max_entries=2, max_bytes=2 * RECORD_BYTES, ttl_s=10)
    store.put(make_record("a"))
    clock.now_s = 5
    store.put(make_record("b"))
    store.get("a", "alice")
    clock.now_s = 10
    store.put(make_record("c"))
    assert kept(store, "b", "c") == ["b", "c"]


def test_a_ttl_of_zero_lets_nothing_expire(make_store: MakeStore, clock: ManualClock) -> None:
    store = make_store(ttl_s=0)
    store.put(make_record("a"))
    clock.now_s = 1e9
    assert kept(store, "a") == ["a"]


def test_a_running_record_is_neither_evicted_nor_expired(
    make_store: MakeStore, clock: ManualClock
) -> None:
    store = make_store(max_entries=1, max_bytes=RECORD_BYTES, ttl_s=10)
    store.put(make_record("a", status="in_progress"))
    store.put(make_record("b"))
    store.put(make_record("c"))
    clock.now_s = 1000
    assert kept(store, "a", "b", "c") == ["a"]


def test_running_records_count_in_no_bound(make_store: MakeStore) -> None:
    store = make_store(max_entries=1, max_bytes=RECORD_BYTES)
    store.put(make_record("c"))
    for response_id in ("a", "b"):
        store.put(make_record(response_id, status="in_progress", body="x" * 2 * RECORD_BYTES))
    assert kept(store, "c", "a", "b") == ["c", "a", "b"]


def test_a_record_counts_from_its_end(make_store: MakeStore, clock: ManualClock) -> None:
    store = make_store(max_entries=1, ttl_s=10)
    store.put(make_record("a", status="in_progress"))
    store.put(make_record("b"))
    clock.now_s = 8
    store.put(make_record("a"))
    assert kept(store, "a", "b") == ["a"]
    clock.now_s = 17
    assert kept(store, "a") == ["a"]
    clock.now_s = 18
    assert kept(store, "a") == []


def test_a_record_that_runs_again_leaves_the_bounds(
    make_store: MakeStore, clock: ManualClock
) -> None:
    store = make_store(max_entries=1, ttl_s=10)
    store.put(make_record("a"))
    store.put(make_record("a", status="in_progress"))
    store.put(make_record("b"))
    assert kept(store, "a", "b") == ["a", "b"]
    clock.now_s = 10
    assert store.get("a", "alice") == make_record("a", status="in_progress")


def test_no_bytes_keep_what_runs_and_nothing_that_has_ended(make_store: MakeStore) -> None:
    store = make_store(max_bytes=0)
    store.put(make_record("a", status="in_progress"))
    assert kept(store, "a") == ["a"]
    store.put(make_record("a"))
    assert kept(store, "a") == []
    assert store.delete("a", "alice") is False


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.put(make_record("a", status="in_progress")),
        lambda store: store.put(make_record("a")),
        lambda store: store.get("a", "alice"),
        lambda store: store.delete("a", "alice"),
    ],
    ids=["put running", "put ended", "get", "delete"],
)
def test_no_entries_make_every_call_name_the_setting(
    make_store: MakeStore, call: Callable[[ResponseStore], object]
) -> None:
    store = make_store(max_entries=0)
    with pytest.raises(StoreDisabledError, match="`responses_store_max_entries`") as caught:
        call(store)
    assert caught.value.setting == "responses_store_max_entries"
