"""Bounds that allow no entry."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from stores.errors import StoreDisabledError
from stores.types import ConversationLink, HistoryQuery, PageQuery
from tests.stores.conftest import MakeStore
from tests.stores.under_test import (
    PLENTY,
    AnyStore,
    make_conversation,
)

NONE = replace(PLENTY, max_entries=0)
PAGE = PageQuery(1)


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.get("a", "alice"),
        lambda store: store.delete("a", "alice"),
        lambda store: store.list_input_items("a", "alice", PAGE),
        lambda store: store.read_history(HistoryQuery("alice", "a")),
    ],
    ids=["get", "delete", "list", "history"],
)
def test_without_responses_a_call_names_the_setting(
    make_store: MakeStore, call: Callable[[AnyStore], object]
) -> None:
    with pytest.raises(StoreDisabledError, match="`responses_store_max_entries`"):
        call(make_store(NONE).store)


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.create_conversation(make_conversation("x"), ()),
        lambda store: store.get_conversation("x", "alice"),
        lambda store: store.update_conversation("x", "alice", "{}"),
        lambda store: store.delete_conversation("x", "alice"),
        lambda store: store.append_items("x", "alice", ()),
        lambda store: store.list_conversation_items("x", "alice", PAGE),
        lambda store: store.get_conversation_item("x", "alice", "i"),
        lambda store: store.delete_conversation_item("x", "alice", "i"),
        lambda store: store.read_history(HistoryQuery("alice", conversation_id="x")),
    ],
    ids=["create", "get", "update", "delete", "append", "list", "get item", "delete item", "read"],
)
def test_without_conversations_a_call_names_the_setting(
    make_store: MakeStore, call: Callable[[AnyStore], object]
) -> None:
    with pytest.raises(StoreDisabledError, match="`conversation_store_max_entries`"):
        call(make_store(PLENTY, NONE).store)


def test_items_can_always_be_asked_for(make_store: MakeStore) -> None:
    caller = make_store(NONE)
    caller.create("x", "i")
    assert caller.found("i", "j") == ["i"]


def test_without_responses_conversations_are_held_and_grow(make_store: MakeStore) -> None:
    caller = make_store(NONE, replace(PLENTY, max_entries=1))
    caller.create("x", "i")
    caller.begin("a", link=caller.link("x", num_read=1), parent="unknown", new="i j")
    caller.create("y")
    assert caller.has_conversations("x", "y") == ["x", "y"]
    caller.finish("a", out="o")
    assert caller.has_conversations("x", "y") == ["x"]
    assert caller.items("x") == ["i", "j", "o"]
    assert caller.store.list_running() == ()


def test_without_responses_an_end_is_appended_once(make_store: MakeStore) -> None:
    caller = make_store(NONE)
    for _ in range(2):
        caller.finish("a", link=caller.link("x"), new="i", out="o")
    assert caller.items("x") == ["i", "o"]


def test_without_conversations_responses_are_kept(make_store: MakeStore) -> None:
    caller = make_store(PLENTY, NONE)
    caller.begin("a", link=ConversationLink("x", None, 0), new="i")
    caller.finish("a", out="o")
    assert caller.has("a") == ["a"]
