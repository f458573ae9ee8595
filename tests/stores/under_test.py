"""Every implementation of `Store`, and what the tests that hold for all of them need."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from stores.memory import MemoryStore
from stores.sqlite import SqliteStore
from stores.types import (
    Bounds,
    ConversationLink,
    ConversationRecord,
    HistoryQuery,
    ItemRecord,
    PageQuery,
    RecordStatus,
    ResponseRecord,
    StoreBounds,
)

AnyStore = MemoryStore | SqliteStore
# A store of those bounds, with that clock, in that folder.
StoreFactory = Callable[[StoreBounds, Callable[[], float], Path], AnyStore]


def make_memory(bounds: StoreBounds, clock: Callable[[], float], folder: Path) -> MemoryStore:
    return MemoryStore(bounds, clock)


def make_sqlite(bounds: StoreBounds, clock: Callable[[], float], folder: Path) -> SqliteStore:
    return SqliteStore(folder / "store.sqlite3", bounds, clock, lock_wait_s=0.1)


STORE_FACTORIES: dict[str, StoreFactory] = {"memory": make_memory, "sqlite": make_sqlite}

PLENTY = Bounds(max_entries=100_000, max_bytes=1_000_000_000, ttl_s=0)


class ManualClock:
    """A clock that moves only when a test moves it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def make_item(item_id: str, body: str | None = None) -> ItemRecord:
    return ItemRecord(item_id, f'"{item_id}"' if body is None else body)


def make_items(*item_ids: str) -> tuple[ItemRecord, ...]:
    return tuple(map(make_item, item_ids))


def make_record(
    response_id: str,
    *,
    owner: str = "alice",
    status: RecordStatus = "completed",
    body: str = "{}",
    parent: str | None = None,
    link: ConversationLink | None = None,
    new: str = "",
    out: str = "",
) -> ResponseRecord:
    """A record; `new` and `out` are the ids of its input and output, divided by spaces."""
    return ResponseRecord(
        response_id=response_id,
        owner=owner,
        status=status,
        created_at=1_700_000_000,
        body=body,
        parent_id=parent,
        conversation=link,
        input=make_items(*new.split()),
        output=make_items(*out.split()),
    )


def make_conversation(
    conversation_id: str, *, owner: str = "alice", metadata: str = "{}"
) -> ConversationRecord:
    return ConversationRecord(conversation_id, owner, 1_700_000_000, metadata)


class Caller:
    """Alice, as she calls a store, in few words; ids in and out."""

    def __init__(self, store: AnyStore) -> None:
        self.store = store

    def begin(self, response_id: str, **fields: Any) -> None:
        self.store.begin(make_record(response_id, status="in_progress", **fields))

    def finish(self, response_id: str, **fields: Any) -> None:
        self.store.finish(make_record(response_id, **fields))

    def has(self, *response_ids: str) -> list[str]:
        """Those of the ids that the store still has, read in this order."""
        return [it for it in response_ids if self.store.get(it, "alice") is not None]

    def history(self, parent_id: str) -> list[str]:
        return ids_of(self.store.read_history(HistoryQuery("alice", parent_id)).items)

    def found(self, *item_ids: str) -> list[str]:
        return list(self.store.read_history(HistoryQuery("alice", item_ids=item_ids)).found)

    def inputs(
        self, response_id: str, limit: int = 100, after: str | None = None, down: bool = False
    ) -> list[str] | None:
        page = self.store.list_input_items(response_id, "alice", PageQuery(limit, after, down))
        return None if page is None else ids_of(page.items)

    def link(self, conversation_id: str, num_read: int = 0) -> ConversationLink:
        """As a response has it that reads the conversation now."""
        query = HistoryQuery("alice", conversation_id=conversation_id)
        serial = self.store.read_history(query).conversation_serial
        return ConversationLink(conversation_id, serial, num_read)

    def create(self, conversation_id: str, item_ids: str = "", metadata: str = "{}") -> None:
        record = make_conversation(conversation_id, metadata=metadata)
        self.store.create_conversation(record, make_items(*item_ids.split()))

    def append(self, conversation_id: str, item_ids: str) -> bool:
        return self.store.append_items(conversation_id, "alice", make_items(*item_ids.split()))

    def items(
        self, conversation_id: str, limit: int = 100, after: str | None = None, down: bool = False
    ) -> list[str] | None:
        query = PageQuery(limit, after, down)
        page = self.store.list_conversation_items(conversation_id, "alice", query)
        return None if page is None else ids_of(page.items)

    def has_conversations(self, *conversation_ids: str) -> list[str]:
        get = self.store.get_conversation
        return [it for it in conversation_ids if get(it, "alice") is not None]


def ids_of(items: tuple[ItemRecord, ...]) -> list[str]:
    return [item.item_id for item in items]
