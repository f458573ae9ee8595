"""Which responses there are, by what rules they go, and how they read. No text is here."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

from stores.chains import Chains, Item, Key, Node, list_chain, node_bytes, weigh_union
from stores.errors import ParentGoneError
from stores.pages import cut_page
from stores.recency import Recency
from stores.rows import ENTRIES, EntryRow, LifeRow
from stores.running import RunningLedger, to_link
from stores.shelf import Shelf
from stores.types import (
    NODE_OVERHEAD_BYTES,
    RECORD_OVERHEAD_BYTES,
    Bounds,
    ConversationLink,
    ItemPage,
    ItemRecord,
    PageQuery,
    RecordStatus,
    ResponseRecord,
    text_bytes,
)


@dataclass(slots=True, eq=False)
class Entry:
    """A response that has ended and can be read by its id. `own_bytes` is without its node."""

    node: Node
    status: RecordStatus
    own_bytes: int

    @property
    def row(self) -> int:
        return self.node.row


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a response began that ends now: its conversation, and what of its input came new."""

    conversation: ConversationLink | None
    new_input: tuple[ItemRecord, ...]


def entry_bytes(body_bytes: int) -> int:
    """What an entry weighs without its node."""
    return RECORD_OVERHEAD_BYTES - NODE_OVERHEAD_BYTES + body_bytes


class ResponseLedger:
    """All responses of a store, within their bounds."""

    def __init__(self, bounds: Bounds, shelf: Shelf) -> None:
        self._bounds = bounds
        self._shelf = shelf
        self.chains = Chains(shelf)
        self.running = RunningLedger(shelf, self.chains)
        self._recency: Recency[Entry] = Recency(shelf, bounds.ttl_s)
        self._entries: dict[Key, Entry] = {}
        self._entries_bytes = 0

    @property
    def num_bytes(self) -> int:
        """What counts: entries, nodes and the items of nodes."""
        return self._entries_bytes + self.chains.num_bytes

    # ── taking over what is on the shelf: chains and what runs, then entries, then the end ───────

    def load_entries(
        self, rows: Iterable[tuple[EntryRow, int, Node, LifeRow]], now_s: float
    ) -> None:
        """Take over entries: their rows, the bytes of their bodies, their nodes and their lives."""
        lives = []
        for row, body_bytes, node, life in rows:
            if self.is_begun(node.key):
                raise ValueError("A response is there twice.")
            entry = Entry(node, cast(RecordStatus, row.status), entry_bytes(body_bytes))
            self._insert(entry)
            lives.append((entry, life))
        self._recency.load(lives, now_s)

    def load_end(self, nodes: Iterable[Node], now_s: float) -> None:
        """Drop what nothing needs, what is too old, what has no room even alone, and what is much.

        Where the bounds have become 0 entries, of what runs only the holds stay.
        """
        self.chains.load_end(nodes)
        if self._bounds.max_entries == 0:
            for running in self.running:
                self.running.to_hold(running)
        self.expire(now_s)
        for entry in list(self._entries.values()):
            node = entry.node
            if not self._has_room(node.key, node.parent, node.items, entry.own_bytes):
                self._drop(entry)
        self._evict()

    # ── beginning and ending ─────────────────────────────────────────────────────────────────────

    def is_begun(self, key: Key) -> bool:
        """Whether there is a response of that key, be it a hold."""
        return key in self.running or key in self._entries

    def begin(self, record: ResponseRecord, now_s: float) -> None:
        """Keep a new record in progress, or a hold where no response is kept.

        Raises:
            ParentGoneError: where its parent is not there, runs or has failed.
        """
        if self._bounds.max_entries == 0:
            self.running.begin_hold(record, now_s)
        else:
            self.running.begin(record, self._take_parent(record), now_s)

    def can_end(self, key: Key) -> bool:
        """False where its end is kept already."""
        entry = self._entries.get(key)
        return entry is None or entry.status == "failed"

    def read_beginning(self, record: ResponseRecord) -> Beginning:
        """How a response began that ends now: as it is kept, or else as the record says."""
        key = (record.owner, record.response_id)
        running, failed = self.running.find_begun(key), self._entries.get(key)
        if running is not None:
            link, items = to_link(self.running.read(running)), running.input
        elif failed is not None:
            link = to_link(self._shelf.get(ENTRIES, failed.row))
            items = failed.node.items[: failed.node.num_input]
        else:
            link = record.conversation
            return Beginning(link, record.input[0 if link is None else link.num_read :])
        return Beginning(link, () if link is None else self.chains.read(items[link.num_read :]))

    def finish(self, record: ResponseRecord, link: ConversationLink | None, now_s: float) -> None:
        """Keep a record that has ended, if it has room, in place of its older one.

        `link` is that of its beginning.

        Raises:
            ParentGoneError: where its beginning is not known and its parent is not there.
        """
        key = (record.owner, record.response_id)
        running, failed = self.running.find_begun(key), self._entries.get(key)
        if self._bounds.max_entries == 0 or (running is not None and running.is_hold):
            self.running.end(key)
            return
        if running is not None:
            parent, new_input = running.parent, running.input
            self.chains.hold_again(new_input)
        elif failed is not None:
            parent, new_input = failed.node.parent, failed.node.items[: failed.node.num_input]
            self.chains.hold_again(new_input)
        else:
            parent = self._take_parent(record)
            new_input = self.chains.hold(record.owner, record.input)
        self.chains.need(parent)
        self.running.end(key)
        if failed is not None:
            self._drop(failed)
        self._add(replace(record, conversation=link), parent, new_input, now_s)
        self.chains.release(parent)

    def delete(self, key: Key) -> bool:
        running, entry = self.running.find(key), self._entries.get(key)
        if running is not None:
            self.running.to_hold(running)
        if entry is not None:
            self._drop(entry)
        return running is not None or entry is not None

    def expire(self, now_s: float) -> None:
        for entry in self._recency.list_expired(now_s):
            self._drop(entry)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def get(self, key: Key) -> ResponseRecord | None:
        running, entry = self.running.find(key), self._entries.get(key)
        if running is not None:
            return replace(self.running.to_record(running), conversation=None)
        if entry is None:
            return None
        self._recency.use(entry)
        return self._read(entry)

    def list_running(self) -> tuple[ResponseRecord, ...]:
        return tuple(self.running.to_record(it) for it in self.running if not it.is_hold)

    def list_input_items(self, key: Key, query: PageQuery) -> ItemPage | None:
        """Raises UnknownItemError where the cursor is not among the items."""
        running, entry = self.running.find(key), self._entries.get(key)
        if running is not None:
            items = [*list_chain(running.parent), *running.input]
        elif entry is not None:
            items = [*list_chain(entry.node.parent), *entry.node.items[: entry.node.num_input]]
        else:
            return None
        places, has_more = cut_page([item.key[1] for item in items], query)
        if entry is not None:
            self._recency.use(entry)
        return ItemPage(self.chains.read(items[place] for place in places), has_more)

    def weigh_chain(self, key: Key) -> int:
        """At least what a response weighs with its ancestors; 0 where it is not there."""
        entry = self._entries.get(key)
        return 0 if entry is None else entry.node.chain_bytes

    def read_chain(self, key: Key) -> tuple[RecordStatus | None, tuple[ItemRecord, ...]]:
        """The status of a parent and the items of its chain, none where it runs or has failed."""
        entry = self._entries.get(key)
        if entry is None:
            return ("in_progress" if self.running.find(key) is not None else None), ()
        self._recency.use(entry)
        if entry.status == "failed":
            return entry.status, ()
        return entry.status, self.chains.read(list_chain(entry.node))

    def find_item(self, owner: str, item_id: str) -> ItemRecord | None:
        """An item of a response that has ended, or that one needs."""
        item = self.chains.find(owner, item_id)
        return None if item is None else self.chains.read([item])[0]

    # ── steps ────────────────────────────────────────────────────────────────────────────────────

    def _take_parent(self, record: ResponseRecord) -> Node | None:
        """The node to go on from, which is a use of its entry."""
        if record.parent_id is None:
            return None
        entry = self._entries.get((record.owner, record.parent_id))
        if entry is None or entry.status == "failed":
            raise ParentGoneError("The response to go on from is not there any more.")
        self._recency.use(entry)
        return entry.node

    def _add(
        self,
        record: ResponseRecord,
        parent: Node | None,
        new_input: tuple[Item, ...],
        now_s: float,
    ) -> None:
        """Add an entry if it has room, and make that room. Its new input is held, and let go."""
        output = self.chains.hold(record.owner, record.output)
        own_bytes = entry_bytes(text_bytes(record.body))
        key = (record.owner, record.response_id)
        if self._has_room(key, parent, new_input + output, own_bytes):
            node = self.chains.add(key, parent, new_input, output)
            entry = Entry(node, record.status, own_bytes)
            self._shelf.put(ENTRIES, _to_row(node.row, record))
            self._insert(entry)
            self._recency.put(entry, now_s)
            self._recency.use(entry)
            self._evict()
        self.chains.let_go(new_input + output)

    def _has_room(
        self, key: Key, parent: Node | None, items: tuple[Item, ...], own_bytes: int
    ) -> bool:
        """Whether an entry fits beside all that it and what runs need.

        It asks for upper bounds first, which are enough as a rule, and walks the chains if not.
        """
        own_bytes += node_bytes(key, len(items))
        chain_bytes = self.running.chain_bytes + (0 if parent is None else parent.chain_bytes)
        beside_bytes = min(self.num_bytes, chain_bytes)
        items_bytes = sum(item.size_bytes for item in items)
        if own_bytes + items_bytes + beside_bytes <= self._bounds.max_bytes:
            return True
        starts = [parent, *self.running.list_parents()]
        return own_bytes + weigh_union(starts, items) <= self._bounds.max_bytes

    def _evict(self) -> None:
        bounds = self._bounds
        while len(self._recency) > 0 and (
            len(self._recency) > bounds.max_entries or self.num_bytes > bounds.max_bytes
        ):
            self._drop(self._recency.least_used())

    def _insert(self, entry: Entry) -> None:
        self._entries[entry.node.key] = entry
        self._entries_bytes += entry.own_bytes
        self.chains.need(entry.node)

    def _drop(self, entry: Entry) -> None:
        del self._entries[entry.node.key]
        self._entries_bytes -= entry.own_bytes
        self._recency.drop(entry)
        self._shelf.drop(ENTRIES, entry.row)
        self.chains.release(entry.node)

    def _read(self, entry: Entry) -> ResponseRecord:
        row, node = self._shelf.get(ENTRIES, entry.row), entry.node
        return ResponseRecord(
            response_id=node.key[1],
            owner=node.key[0],
            status=entry.status,
            created_at=row.created_at,
            body=row.body,
            parent_id=None if node.parent is None else node.parent.key[1],
            output=self.chains.read(node.items[node.num_input :]),
        )


def _to_row(row: int, record: ResponseRecord) -> EntryRow:
    link = record.conversation if record.status == "failed" else None
    return EntryRow(
        row=row,
        status=record.status,
        created_at=record.created_at,
        conversation_id=None if link is None else link.conversation_id,
        serial=None if link is None else link.serial,
        num_read=0 if link is None else link.num_read,
        body=record.body,
    )
