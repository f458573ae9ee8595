"""What responses need of one another, whatever becomes of their ancestors."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from stores.errors import HistoryTooLargeError, ParentGoneError, UnknownItemError
from stores.types import (
    NODE_OVERHEAD_BYTES,
    RECORD_OVERHEAD_BYTES,
    REFERENCE_BYTES,
    Bounds,
    History,
    HistoryQuery,
    PageQuery,
    RecordStatus,
    text_bytes,
)
from tests.stores.conftest import MakeStore
from tests.stores.under_test import PLENTY, Caller, ManualClock, make_item, make_record

# What goes with an entry whose node stays.
ENTRY_BYTES = RECORD_OVERHEAD_BYTES - NODE_OVERHEAD_BYTES + text_bytes("{}")


def finish_chain(caller: Caller, *response_ids: str) -> None:
    """Responses `a`, …, each the parent of the next, of one input `a_in` and one output `a_out`."""
    parent = None
    for it in response_ids:
        caller.finish(it, parent=parent, new=f"{it}_in", out=f"{it}_out")
        parent = it


def evict(caller: Caller, clock: ManualClock) -> None:
    for name in ("e", "f", "g"):
        caller.finish(name)


def expire(caller: Caller, clock: ManualClock) -> None:
    clock.now_s += 100


def delete(caller: Caller, clock: ManualClock) -> None:
    for name in ("a", "b"):
        assert caller.store.delete(name, "alice")


WAYS_TO_GO = pytest.mark.parametrize("go", [evict, expire, delete])


def test_a_history_is_the_whole_chain(make_store: MakeStore) -> None:
    caller = make_store()
    finish_chain(caller, "a", "b", "c")
    history = caller.store.read_history(HistoryQuery("alice", "c"))
    names = ["a_in", "a_out", "b_in", "b_out", "c_in", "c_out"]
    assert history.items == tuple(map(make_item, names))
    assert (history.parent_status, history.conversation_serial) == ("completed", None)
    assert caller.inputs("c") == names[:-1]


@pytest.mark.parametrize("status", ["incomplete", "cancelled"])
def test_any_that_has_ended_and_not_failed_may_be_a_parent(
    make_store: MakeStore, status: RecordStatus
) -> None:
    caller = make_store()
    caller.finish("a", status=status, out="o")
    caller.begin("b", parent="a", new="i")
    assert caller.inputs("b") == ["o", "i"]


def test_no_other_may_be_a_parent(make_store: MakeStore) -> None:
    caller = make_store()
    caller.begin("running", out="o")
    caller.finish("failed", status="failed", out="o")
    caller.finish("deleted")
    caller.store.delete("deleted", "alice")
    caller.store.finish(make_record("bobs", owner="bob"))
    for parent in ("running", "failed", "deleted", "bobs", "unknown"):
        for call in (caller.begin, caller.finish):
            with pytest.raises(ParentGoneError):
                call("child", parent=parent, new="i", out="u")
        assert caller.history(parent) == []
    assert caller.has("child") == []
    assert caller.found("i", "u") == []


def test_the_status_of_a_parent_is_told(make_store: MakeStore) -> None:
    caller = make_store()
    caller.begin("running")
    caller.finish("failed", status="failed")
    tell = {
        it: caller.store.read_history(HistoryQuery("alice", it)).parent_status
        for it in ("running", "failed", "unknown")
    }
    assert tell == {"running": "in_progress", "failed": "failed", "unknown": None}


@WAYS_TO_GO
def test_a_descendant_is_whole_when_its_ancestors_are_gone(
    make_store: MakeStore, clock: ManualClock, go: Callable[[Caller, ManualClock], None]
) -> None:
    caller = make_store(Bounds(max_entries=3, max_bytes=100_000, ttl_s=100))
    finish_chain(caller, "a", "b")
    clock.now_s = 50
    caller.begin("c", parent="b", new="c_in")
    go(caller, clock)
    assert caller.has("a", "b") == []
    assert caller.inputs("c") == ["a_in", "a_out", "b_in", "b_out", "c_in"]
    caller.finish("c", out="c_out")
    assert caller.history("c") == ["a_in", "a_out", "b_in", "b_out", "c_in", "c_out"]
    record = caller.store.get("c", "alice")
    assert record is not None and record.parent_id == "b"
    with pytest.raises(ParentGoneError):
        caller.begin("d", parent="b")


@WAYS_TO_GO
def test_ancestors_go_with_the_last_that_needs_them(
    make_store: MakeStore, clock: ManualClock, go: Callable[[Caller, ManualClock], None]
) -> None:
    caller = make_store(Bounds(max_entries=3, max_bytes=100_000, ttl_s=100))
    finish_chain(caller, "a", "b")
    clock.now_s = 50
    caller.begin("c", parent="b", new="c_in")
    caller.begin("d", parent="b")
    go(caller, clock)
    caller.finish("c", status="failed")
    caller.store.delete("c", "alice")
    assert caller.found("a_in", "b_out", "c_in") == ["a_in", "b_out"]
    caller.store.delete("d", "alice")
    assert caller.found("a_in", "a_out", "b_in", "b_out", "c_in") == []


@pytest.mark.parametrize(("spare_bytes", "kept"), [(0, ["b", "c"]), (-1, ["c"])])
def test_what_a_descendant_needs_counts_in_bytes_and_not_in_entries(
    make_store: MakeStore, spare_bytes: int, kept: list[str]
) -> None:
    first, last = make_record("a", new="a_in"), make_record("c")
    child = make_record("b", parent="a", new="b_in")
    needed_bytes = first.size_bytes - ENTRY_BYTES
    max_bytes = needed_bytes + child.size_bytes + last.size_bytes + spare_bytes
    caller = make_store(Bounds(max_entries=2, max_bytes=max_bytes, ttl_s=0))
    for record in (first, child, last):
        caller.store.finish(record)
    assert caller.has("a", "b", "c") == kept
    assert caller.found("a_in") == (["a_in"] if "b" in kept else [])


def test_an_item_of_many_responses_counts_once(make_store: MakeStore) -> None:
    large = make_item("large", "x" * 10_000)
    records = [replace(make_record(it), input=(large,)) for it in "abcd"]
    num_bytes = sum(it.own_bytes + REFERENCE_BYTES for it in records) + large.size_bytes
    caller = make_store(replace(PLENTY, max_bytes=num_bytes))
    for record in records:
        caller.store.finish(record)
    assert caller.has("a", "b", "c", "d") == ["a", "b", "c", "d"]
    for response_id in "abc":
        caller.store.delete(response_id, "alice")
    assert caller.inputs("d") == ["large"]
    caller.store.delete("d", "alice")
    assert caller.found("large") == []


def test_two_owners_share_no_item(make_store: MakeStore) -> None:
    caller = make_store()
    caller.store.finish(replace(make_record("a"), output=(make_item("i", "hers"),)))
    caller.store.finish(replace(make_record("a", owner="bob"), output=(make_item("i", "his"),)))
    for owner, body in (("alice", "hers"), ("bob", "his")):
        found = caller.store.read_history(HistoryQuery(owner, item_ids=("i",))).found
        assert found == {"i": make_item("i", body)}


@pytest.mark.parametrize(("spare_bytes", "kept"), [(0, ["b"]), (-1, ["a", "other"])])
def test_a_record_is_not_kept_where_its_chain_leaves_it_no_room(
    make_store: MakeStore, spare_bytes: int, kept: list[str]
) -> None:
    first, child = make_record("a", new="i"), make_record("b", parent="a", body="x" * 2000)
    max_bytes = first.size_bytes - ENTRY_BYTES + child.size_bytes + spare_bytes
    caller = make_store(replace(PLENTY, max_bytes=max_bytes))
    for record in (first, make_record("other"), child):
        caller.store.finish(record)
    assert caller.has("a", "b", "other") == kept


def test_a_record_is_not_kept_where_what_runs_needs_the_room(make_store: MakeStore) -> None:
    caller = make_store(replace(PLENTY, max_bytes=7000))
    large = make_item("large", "x" * 5000)
    caller.store.finish(replace(make_record("a"), output=(large,)))
    caller.begin("running", parent="a")
    caller.finish("b", body="x" * 1500)
    assert caller.has("a", "b") == ["a"]
    caller.store.delete("running", "alice")
    caller.finish("b", body="x" * 1500)
    assert caller.has("a", "b") == ["b"]


def test_thousands_in_a_chain_are_kept_read_and_dropped(make_store: MakeStore) -> None:
    caller = make_store()
    parent, length = None, 5000
    for number in range(length):
        caller.finish(f"r{number}", parent=parent, new=f"i{number}")
        parent = f"r{number}"
    for number in range(length - 1):
        assert caller.store.delete(f"r{number}", "alice")
    assert caller.history(f"r{length - 1}") == [f"i{number}" for number in range(length)]
    assert caller.store.delete(f"r{length - 1}", "alice")
    assert caller.found("i0", f"i{length - 1}") == []


def test_naming_items_finds_those_of_responses_that_have_ended(make_store: MakeStore) -> None:
    caller = make_store()
    caller.finish("a", new="i", out="o")
    caller.begin("b", new="running")
    query = HistoryQuery("alice", item_ids=("o", "running", "i", "unknown"))
    found = caller.store.read_history(query).found
    assert found == {"i": make_item("i"), "o": make_item("o")}


# ── pages ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("query", "item_ids", "has_more"),
    [
        (PageQuery(10, None, False), ["a_in", "a_out", "b_in"], False),
        (PageQuery(10, None, True), ["b_in", "a_out", "a_in"], False),
        (PageQuery(3, None, False), ["a_in", "a_out", "b_in"], False),
        (PageQuery(2, None, False), ["a_in", "a_out"], True),
        (PageQuery(2, None, True), ["b_in", "a_out"], True),
        (PageQuery(1, "a_in", False), ["a_out"], True),
        (PageQuery(1, "a_out", False), ["b_in"], False),
        (PageQuery(1, "a_out", True), ["a_in"], False),
        (PageQuery(1, "b_in", False), [], False),
        (PageQuery(1, "a_in", True), [], False),
    ],
)
def test_a_page_of_a_response(
    make_store: MakeStore, query: PageQuery, item_ids: list[str], has_more: bool
) -> None:
    caller = make_store()
    finish_chain(caller, "a", "b")
    page = caller.store.list_input_items("b", "alice", query)
    assert page is not None
    assert (page.items, page.has_more) == (tuple(map(make_item, item_ids)), has_more)


def test_a_response_without_items_has_an_empty_page(make_store: MakeStore) -> None:
    caller = make_store()
    caller.finish("a")
    assert caller.inputs("a") == []


@pytest.mark.parametrize("cursor", ["b_out", "unknown"])
def test_a_cursor_that_is_not_there_is_refused_and_no_use(
    make_store: MakeStore, cursor: str
) -> None:
    caller = make_store(replace(PLENTY, max_entries=3))
    finish_chain(caller, "a", "b")
    caller.finish("c")
    with pytest.raises(UnknownItemError):
        caller.inputs("a", after=cursor)
    caller.finish("d")
    assert caller.has("a", "b", "c", "d") == ["b", "c", "d"]


def test_a_history_beyond_what_a_request_may_read_is_refused_before_it_is_read(
    make_store: MakeStore,
) -> None:
    caller = make_store()
    finish_chain(caller, "a", "b")
    caller.create("x", "i j")
    queries = [
        HistoryQuery("alice", parent_id="b"),
        HistoryQuery("alice", conversation_id="x"),
        HistoryQuery("alice", item_ids=("a_in", "i")),
    ]
    for query in queries:
        assert caller.store.read_history(replace(query, max_bytes=10_000)) != History()
        with pytest.raises(HistoryTooLargeError):
            caller.store.read_history(replace(query, max_bytes=500))
    both = HistoryQuery("alice", "b", item_ids=("i",))
    weight = sum(item.size_bytes for item in caller.store.read_history(both).items)
    with pytest.raises(HistoryTooLargeError):
        caller.store.read_history(replace(both, max_bytes=weight + 100))
