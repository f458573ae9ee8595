"""How a store keeps conversations, and what responses do to them."""

import logging
from dataclasses import replace

import pytest

from stores.errors import ConversationFullError, UnknownItemError
from stores.types import Bounds, ConversationLink, HistoryQuery, RecordStatus
from tests.stores.conftest import MakeStore
from tests.stores.under_test import (
    PLENTY,
    ManualClock,
    make_conversation,
    make_item,
    make_items,
    make_record,
)

OWN_BYTES = make_conversation("x").own_bytes
ITEM_BYTES = make_item("i").size_bytes


def test_a_conversation_comes_back_and_its_items_in_order(make_store: MakeStore) -> None:
    caller = make_store()
    caller.create("x", "j i", metadata='{"é": "1"}')
    assert caller.append("x", "k i")
    record = make_conversation("x", metadata='{"é": "1"}')
    assert caller.store.get_conversation("x", "alice") == record
    history = caller.store.read_history(HistoryQuery("alice", conversation_id="x"))
    assert history.items == make_items("j", "i", "k")
    assert caller.store.get_conversation_item("x", "alice", "i") == make_item("i")


def test_creating_again_changes_nothing(make_store: MakeStore) -> None:
    caller = make_store()
    caller.create("x", "i")
    caller.create("x", "j", metadata='{"a": "b"}')
    assert caller.store.get_conversation("x", "alice") == make_conversation("x")
    assert caller.items("x") == ["i"]


def test_metadata_is_replaced(make_store: MakeStore) -> None:
    caller = make_store()
    caller.create("x", "i")
    updated = make_conversation("x", metadata='{"a": "b"}')
    assert caller.store.update_conversation("x", "alice", '{"a": "b"}') == updated
    assert caller.store.get_conversation("x", "alice") == updated


def test_an_item_is_taken_out(make_store: MakeStore) -> None:
    caller = make_store()
    caller.create("x", "i j k")
    assert caller.store.delete_conversation_item("x", "alice", "j") == make_conversation("x")
    assert caller.items("x") == ["i", "k"]
    assert caller.found("j") == []
    assert caller.store.delete_conversation_item("x", "alice", "j") is None
    assert caller.append("x", "j")
    assert caller.items("x") == ["i", "k", "j"]


def test_a_deleted_conversation_is_gone_with_its_items(make_store: MakeStore) -> None:
    caller = make_store()
    caller.create("x", "i j")
    caller.create("y", "j")
    assert caller.store.delete_conversation("x", "alice") is True
    assert caller.has_conversations("x") == []
    assert caller.found("i", "j") == ["j"]
    assert caller.store.delete_conversation("x", "alice") is False


def test_a_conversation_and_a_response_need_nothing_of_each_other(make_store: MakeStore) -> None:
    caller = make_store()
    caller.finish("a", out="i")
    caller.create("x", "i")
    caller.store.delete("a", "alice")
    assert caller.items("x") == ["i"]
    caller.finish("a", out="i")
    caller.store.delete_conversation("x", "alice")
    assert caller.history("a") == ["i"]


@pytest.mark.parametrize("owner", ["alice", "bob"])
def test_what_is_unknown_or_anothers_is_nothing(make_store: MakeStore, owner: str) -> None:
    caller = make_store()
    store, key = caller.store, ("x" if owner == "bob" else "y", owner)
    caller.create("x", "i")
    assert store.get_conversation(*key) is None
    assert store.update_conversation(*key, "{1}") is None
    assert store.delete_conversation(*key) is False
    assert store.append_items(*key, make_items("j")) is False
    assert store.get_conversation_item(*key, "i") is None
    assert store.delete_conversation_item(*key, "i") is None
    query = HistoryQuery(owner, conversation_id=key[0], item_ids=("i",))
    history = store.read_history(query)
    assert (history.items, history.conversation_serial) == ((), None)
    assert list(history.found) == ([] if owner == "bob" else ["i"])
    assert caller.items("x") == ["i"]


def test_a_page_of_a_conversation(make_store: MakeStore) -> None:
    caller = make_store()
    caller.create("x", "i j k")
    assert caller.items("x", limit=2, down=True) == ["k", "j"]
    assert caller.items("x", after="i") == ["j", "k"]
    assert caller.items("x", after="k") == []
    assert caller.items("y") is None
    with pytest.raises(UnknownItemError):
        caller.items("x", after="unknown")


# ── bounds ───────────────────────────────────────────────────────────────────────────────────────


def test_an_append_renews_a_life_and_nothing_else_does(
    make_store: MakeStore, clock: ManualClock
) -> None:
    caller = make_store(conversations=replace(PLENTY, ttl_s=10))
    for name in ("read", "updated", "appended"):
        caller.create(name, "i")
    clock.now_s = 9
    caller.items("read")
    caller.store.update_conversation("updated", "alice", "{1}")
    caller.append("appended", "i")
    clock.now_s = 10
    assert caller.has_conversations("read", "updated", "appended") == ["appended"]
    clock.now_s = 19
    assert caller.has_conversations("appended") == []


def test_the_least_recently_used_goes(make_store: MakeStore) -> None:
    caller = make_store(conversations=replace(PLENTY, max_entries=2))
    caller.create("x")
    caller.create("y")
    caller.items("x")
    caller.create("z")
    assert caller.has_conversations("x", "y", "z") == ["x", "z"]


def test_conversations_go_for_bytes(make_store: MakeStore) -> None:
    caller = make_store(conversations=replace(PLENTY, max_bytes=2 * OWN_BYTES + 2 * ITEM_BYTES))
    caller.create("x", "i")
    caller.create("y", "i")
    caller.append("x", "j")
    assert caller.has_conversations("x", "y") == ["x"]


def test_a_conversation_is_full_when_it_would_be_alone_beyond_the_bytes(
    make_store: MakeStore,
) -> None:
    caller = make_store(conversations=replace(PLENTY, max_bytes=OWN_BYTES + 2 * ITEM_BYTES))
    with pytest.raises(ConversationFullError):
        caller.create("large", "i j k")
    assert caller.has_conversations("large") == []
    caller.create("x", "i")
    assert caller.append("x", "i j j") is True
    with pytest.raises(ConversationFullError):
        caller.append("x", "k")
    with pytest.raises(ConversationFullError):
        caller.store.update_conversation("x", "alice", "{} ")
    assert caller.items("x") == ["i", "j"]
    assert caller.store.get_conversation("x", "alice") == make_conversation("x")


def test_no_bytes_keep_no_conversation(make_store: MakeStore) -> None:
    caller = make_store(conversations=replace(PLENTY, max_bytes=0))
    caller.create("x")
    caller.finish("a", link=caller.link("y"), out="o")
    assert caller.has_conversations("x", "y") == []


# ── responses ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("status", "items"),
    [
        ("completed", ["i", "j", "o"]),
        ("incomplete", ["i", "j", "o"]),
        ("failed", ["i"]),
        ("cancelled", ["i"]),
    ],
)
def test_a_response_appends_what_is_new_where_it_ends_well(
    make_store: MakeStore, status: RecordStatus, items: list[str]
) -> None:
    caller = make_store()
    caller.create("x", "i")
    caller.begin("a", link=caller.link("x", num_read=1), new="i j")
    assert caller.items("x") == ["i"]
    caller.finish("a", status=status, out="o")
    assert caller.items("x") == items


def test_an_unknown_conversation_is_made_by_a_response_that_ends_well(
    make_store: MakeStore,
) -> None:
    caller = make_store()
    caller.begin("a", link=caller.link("x"), new="i")
    assert caller.has_conversations("x") == []
    caller.finish("a", status="failed")
    assert caller.has_conversations("x") == []
    caller.finish("a", out="o")
    assert caller.items("x") == ["i", "o"]
    assert caller.store.get_conversation("x", "alice") == make_conversation("x")
    assert caller.store.get_conversation("x", "bob") is None


def test_two_that_make_one_conversation_both_append(make_store: MakeStore) -> None:
    caller = make_store()
    caller.begin("a", link=caller.link("x"), new="i")
    caller.begin("b", link=caller.link("x"), new="j")
    caller.finish("a", out="o")
    caller.finish("b", out="u")
    assert caller.items("x") == ["i", "o", "j", "u"]


def test_an_end_whose_beginning_is_unknown_says_all_itself(make_store: MakeStore) -> None:
    caller = make_store()
    caller.create("x", "i")
    caller.finish("a", link=caller.link("x", num_read=1), new="i j", out="o")
    assert caller.items("x") == ["i", "j", "o"]


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_conversation_that_was_deleted_meanwhile_gets_nothing(
    make_store: MakeStore, is_made_again: bool
) -> None:
    caller = make_store()
    caller.create("x", "i")
    old = caller.link("x", num_read=1)
    caller.begin("a", link=old, new="i j")
    caller.store.delete_conversation("x", "alice")
    if is_made_again:
        caller.create("x", "k")
        assert caller.link("x").serial != old.serial
    caller.finish("a", out="o")
    assert caller.items("x") == (["k"] if is_made_again else None)


def test_a_response_deleted_while_it_ran_still_appends(make_store: MakeStore) -> None:
    caller = make_store(conversations=replace(PLENTY, max_entries=1))
    caller.create("x", "i")
    caller.begin("a", link=caller.link("x", num_read=1), new="i j")
    caller.store.delete("a", "alice")
    assert caller.found("j") == []
    caller.create("y")
    caller.finish("a", out="o")
    assert caller.items("x") == ["i", "j", "o"]
    assert caller.has("a") == []


def test_a_lost_response_that_ends_well_after_all_appends(make_store: MakeStore) -> None:
    caller = make_store()
    caller.create("x", "i")
    caller.begin("a", link=caller.link("x", num_read=1), new="i j")
    caller.finish("a", status="failed")
    caller.finish("a", out="o")
    caller.finish("a", out="again")
    assert caller.items("x") == ["i", "j", "o"]


def test_a_conversation_of_what_runs_is_in_no_bound(
    make_store: MakeStore, clock: ManualClock
) -> None:
    caller = make_store(conversations=Bounds(1, OWN_BYTES + ITEM_BYTES, 10))
    caller.create("x", "i")
    caller.begin("a", link=caller.link("x"))
    caller.create("y", "i")
    clock.now_s = 9
    caller.append("y", "i")
    clock.now_s = 15
    assert caller.has_conversations("x", "y") == ["x", "y"]
    caller.finish("a", out="i")
    assert caller.has_conversations("x", "y") == ["x"]
    clock.now_s = 25
    assert caller.has_conversations("x") == []


def test_a_conversation_whose_time_is_over_goes_with_the_last_that_runs(
    make_store: MakeStore, clock: ManualClock
) -> None:
    caller = make_store(conversations=Bounds(1, 1_000_000, 10))
    caller.create("x", "i")
    for name in ("a", "b"):
        caller.begin(name, link=caller.link("x"))
    clock.now_s = 5
    caller.create("y")
    clock.now_s = 10
    caller.finish("a", status="failed")
    assert caller.has_conversations("x") == ["x"]
    caller.finish("b", status="cancelled")
    assert caller.has_conversations("x", "y") == ["y"]


def test_a_conversation_that_a_response_makes_too_large_is_gone_with_a_warning(
    make_store: MakeStore, caplog: pytest.LogCaptureFixture
) -> None:
    caller = make_store(conversations=replace(PLENTY, max_bytes=OWN_BYTES + ITEM_BYTES))
    caller.create("x", "i")
    for name in ("a", "b"):
        caller.begin(name, link=caller.link("x"), new="i")
    caller.finish("a", out="o")
    assert caller.items("x") == ["i", "o"]
    assert caplog.messages == []
    caller.finish("b", status="cancelled")
    assert caller.has_conversations("x") == []
    ((_, level, message),) = caplog.record_tuples
    assert level == logging.WARNING
    assert message.startswith(f"A conversation of {OWN_BYTES + 2 * ITEM_BYTES} bytes is dropped")


def test_a_conversation_does_not_depend_on_the_room_of_responses(make_store: MakeStore) -> None:
    caller = make_store(replace(PLENTY, max_bytes=0))
    caller.begin("a", link=caller.link("x"), new="i")
    caller.finish("a", out="o")
    assert caller.has("a") == []
    assert caller.items("x") == ["i", "o"]


def test_a_serial_is_never_used_again(make_store: MakeStore) -> None:
    caller = make_store()
    serials = set()
    for _ in range(3):
        caller.create("x")
        serials.add(caller.link("x").serial)
        caller.store.delete_conversation("x", "alice")
    assert len(serials) == 3 and None not in serials


def test_an_old_serial_appends_to_nothing(make_store: MakeStore) -> None:
    caller = make_store()
    caller.create("x")
    record = make_record("a", link=ConversationLink("x", -1, 0), out="o")
    caller.store.finish(record)
    assert caller.items("x") == []
