"""Which conversations there are, by what rules they go, and how they read. No text is here."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from stores.chains import Key, item_bytes
from stores.errors import ConversationFullError
from stores.pages import cut_page
from stores.recency import Recency
from stores.rows import (
    CONVERSATION_ITEMS,
    CONVERSATIONS,
    ConversationItemRow,
    ConversationRow,
    LifeRow,
)
from stores.shelf import Shelf
from stores.types import (
    RECORD_OVERHEAD_BYTES,
    Bounds,
    ConversationRecord,
    ItemPage,
    ItemRecord,
    PageQuery,
    text_bytes,
)

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class ConversationItem:
    """An item of one conversation, on the shelf."""

    row: int
    size_bytes: int


@dataclass(slots=True, eq=False)
class Conversation:
    """A conversation on the shelf; `row` is its serial. Pinned by responses, it counts nowhere."""

    row: int
    key: Key
    own_bytes: int
    items: dict[str, ConversationItem] = field(default_factory=dict)
    num_bytes: int = 0
    num_pins: int = 0

    def __post_init__(self) -> None:
        self.num_bytes = self.own_bytes


def conversation_bytes(key: Key, metadata_bytes: int) -> int:
    """What a conversation weighs without its items."""
    return RECORD_OVERHEAD_BYTES + text_bytes(*key) + metadata_bytes


class ConversationLedger:
    """All conversations of a store, within their bounds."""

    def __init__(self, bounds: Bounds, shelf: Shelf) -> None:
        self._bounds = bounds
        self._shelf = shelf
        self._recency: Recency[Conversation] = Recency(shelf, bounds.ttl_s)
        self._conversations: dict[Key, Conversation] = {}
        # An owner's item may be in several conversations: its rows in all of them.
        self._item_rows: dict[Key, tuple[int, ...]] = {}
        self.num_bytes = 0
        """What the conversations weigh that are not pinned."""

    # ── taking over what is on the shelf ─────────────────────────────────────────────────────────

    def load(
        self, rows: Iterable[tuple[ConversationRow, int, LifeRow]], now_s: float
    ) -> dict[int, Conversation]:
        """Take over conversations: their rows, the bytes of their metadata and their lives."""
        lives = []
        for row, metadata_bytes, life in rows:
            key = (row.owner, row.conversation_id)
            conversation = Conversation(row.row, key, conversation_bytes(key, metadata_bytes))
            if self._conversations.setdefault(key, conversation) is not conversation:
                raise ValueError("A conversation is there twice.")
            self.num_bytes += conversation.num_bytes
            lives.append((conversation, life))
        self._recency.load(lives, now_s)
        return {conversation.row: conversation for conversation, _ in lives}

    def load_item(
        self, conversation: Conversation, row: ConversationItemRow, body_bytes: int
    ) -> None:
        """Take over the next item of a conversation."""
        if row.item_id in conversation.items:
            raise ValueError("A conversation has an item twice.")
        self._insert_item(
            conversation,
            row.item_id,
            ConversationItem(row.row, item_bytes(row.item_id, body_bytes)),
        )

    def load_end(self, now_s: float) -> None:
        """Drop what is too old, what is too large even alone, and what is too much.

        After all pins are there.
        """
        self.expire(now_s)
        for conversation in list(self._conversations.values()):
            if conversation.num_pins == 0 and conversation.num_bytes > self._bounds.max_bytes:
                self._drop(conversation)
        self._evict()

    # ── pins ─────────────────────────────────────────────────────────────────────────────────────

    def pin(self, owner: str, conversation_id: str, serial: int | None) -> Conversation | None:
        """Keep a conversation until `unpin`, if it is there with that serial."""
        conversation = self._conversations.get((owner, conversation_id))
        if conversation is None or conversation.row != serial:
            return None
        self._pin(conversation)
        return conversation

    def unpin(self, conversation: Conversation, now_s: float) -> None:
        """End one pin. After the last it counts again, or goes where it cannot stay."""
        conversation.num_pins -= 1
        if conversation.num_pins > 0 or not self._is_there(conversation):
            return
        self.num_bytes += conversation.num_bytes
        if self._recency.is_over(conversation, now_s):
            self._drop(conversation)
        elif conversation.num_bytes > self._bounds.max_bytes:
            _log.warning(
                "A conversation of %d bytes is dropped: all may have %d bytes together.",
                conversation.num_bytes,
                self._bounds.max_bytes,
            )
            self._drop(conversation)
        else:
            self._recency.use(conversation)
            self._evict()

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def create(
        self, record: ConversationRecord, items: tuple[ItemRecord, ...], now_s: float
    ) -> None:
        """Keep a new conversation, unless it is there or no byte is kept at all.

        Raises ConversationFullError where it would be alone beyond the bounds.
        """
        key = (record.owner, record.conversation_id)
        if key in self._conversations or self._bounds.max_bytes == 0:
            return
        unique = {item.item_id: item for item in items}
        num_bytes = record.own_bytes + sum(item.size_bytes for item in unique.values())
        if num_bytes > self._bounds.max_bytes:
            raise ConversationFullError("There is no room for a conversation of that size.")
        conversation = self._create(record, now_s)
        self._append(conversation, items)
        self._recency.use(conversation)
        self._evict()

    def append(self, key: Key, items: tuple[ItemRecord, ...], now_s: float) -> bool:
        """Raises ConversationFullError where it would be alone beyond the bounds."""
        conversation = self._conversations.get(key)
        if conversation is None:
            return False
        unique = {item.item_id: item for item in items if item.item_id not in conversation.items}
        self._check_room(conversation, sum(item.size_bytes for item in unique.values()))
        self._append(conversation, items)
        self._recency.put(conversation, now_s)
        self._use(conversation)
        self._evict()
        return True

    def append_end(
        self,
        record: ConversationRecord,
        serial: int | None,
        items: tuple[ItemRecord, ...],
        now_s: float,
    ) -> None:
        """Append what a response ended with, to a new conversation where none was there for it."""
        conversation = self._conversations.get((record.owner, record.conversation_id))
        if conversation is None and serial is None:
            conversation = self._create(record, now_s)
        elif conversation is None or serial not in (None, conversation.row):
            return
        self._pin(conversation)
        self._append(conversation, items)
        self._recency.put(conversation, now_s)
        self.unpin(conversation, now_s)

    def update(self, key: Key, metadata: str) -> ConversationRecord | None:
        """Raises ConversationFullError where it would be alone beyond the bounds."""
        conversation = self._conversations.get(key)
        if conversation is None:
            return None
        own_bytes = conversation_bytes(key, text_bytes(metadata))
        self._check_room(conversation, own_bytes - conversation.own_bytes)
        row = self._shelf.get(CONVERSATIONS, conversation.row)._replace(body=metadata)
        self._shelf.put(CONVERSATIONS, row)
        self._grow(conversation, own_bytes - conversation.own_bytes)
        conversation.own_bytes = own_bytes
        self._use(conversation)
        self._evict()
        return _to_record(row)

    def delete(self, key: Key) -> bool:
        conversation = self._conversations.get(key)
        if conversation is not None:
            self._drop(conversation)
        return conversation is not None

    def delete_item(self, key: Key, item_id: str) -> ConversationRecord | None:
        conversation = self._conversations.get(key)
        if conversation is None or item_id not in conversation.items:
            return None
        self._drop_item(conversation, item_id)
        self._use(conversation)
        return _to_record(self._shelf.get(CONVERSATIONS, conversation.row))

    def expire(self, now_s: float) -> None:
        for conversation in self._recency.list_expired(now_s):
            self._drop(conversation)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def get(self, key: Key) -> ConversationRecord | None:
        conversation = self._find(key)
        if conversation is None:
            return None
        return _to_record(self._shelf.get(CONVERSATIONS, conversation.row))

    def weigh(self, key: Key) -> int:
        """What a conversation weighs with its items; 0 where it is not there."""
        conversation = self._conversations.get(key)
        return 0 if conversation is None else conversation.num_bytes

    def read(self, key: Key) -> tuple[int | None, tuple[ItemRecord, ...]]:
        """The serial of a conversation and its items, the oldest first."""
        conversation = self._find(key)
        if conversation is None:
            return None, ()
        return conversation.row, self._read(item.row for item in conversation.items.values())

    def list_items(self, key: Key, query: PageQuery) -> ItemPage | None:
        """Raises UnknownItemError where the cursor is not among the items."""
        conversation = self._conversations.get(key)
        if conversation is None:
            return None
        item_ids = list(conversation.items)
        places, has_more = cut_page(item_ids, query)
        self._use(conversation)
        rows = (conversation.items[item_ids[place]].row for place in places)
        return ItemPage(self._read(rows), has_more)

    def get_item(self, key: Key, item_id: str) -> ItemRecord | None:
        conversation = self._find(key)
        if conversation is None or item_id not in conversation.items:
            return None
        return self._read([conversation.items[item_id].row])[0]

    def find_item(self, owner: str, item_id: str) -> ItemRecord | None:
        """An item of any conversation of an owner."""
        rows = self._item_rows.get((owner, item_id))
        return None if rows is None else self._read(rows[:1])[0]

    # ── steps ────────────────────────────────────────────────────────────────────────────────────

    def _is_there(self, conversation: Conversation) -> bool:
        """False where it was deleted, also if another took its id since."""
        return self._conversations.get(conversation.key) is conversation

    def _find(self, key: Key) -> Conversation | None:
        """A conversation, which is a use of it."""
        conversation = self._conversations.get(key)
        if conversation is not None:
            self._use(conversation)
        return conversation

    def _use(self, conversation: Conversation) -> None:
        if conversation.num_pins == 0:
            self._recency.use(conversation)

    def _pin(self, conversation: Conversation) -> None:
        if conversation.num_pins == 0:
            self.num_bytes -= conversation.num_bytes
            self._recency.pin(conversation)
        conversation.num_pins += 1

    def _check_room(self, conversation: Conversation, more_bytes: int) -> None:
        if more_bytes > 0 and conversation.num_bytes + more_bytes > self._bounds.max_bytes:
            raise ConversationFullError("The conversation has no room for more.")

    def _create(self, record: ConversationRecord, now_s: float) -> Conversation:
        """A new conversation without an item; it has no place among the uses yet."""
        row = ConversationRow(
            row=self._shelf.next_number(),
            owner=record.owner,
            conversation_id=record.conversation_id,
            created_at=record.created_at,
            body=record.metadata,
        )
        self._shelf.put(CONVERSATIONS, row)
        key = (record.owner, record.conversation_id)
        conversation = Conversation(row.row, key, record.own_bytes)
        self._conversations[key] = conversation
        self._recency.put(conversation, now_s)
        self.num_bytes += conversation.num_bytes
        return conversation

    def _append(self, conversation: Conversation, items: Iterable[ItemRecord]) -> None:
        """Append items but those that are there."""
        for item in items:
            if item.item_id not in conversation.items:
                number = self._shelf.next_number()
                row = ConversationItemRow(number, conversation.row, item.item_id, item.body)
                self._shelf.put(CONVERSATION_ITEMS, row)
                new = ConversationItem(number, item.size_bytes)
                self._insert_item(conversation, item.item_id, new)

    def _insert_item(
        self, conversation: Conversation, item_id: str, item: ConversationItem
    ) -> None:
        conversation.items[item_id] = item
        self._grow(conversation, item.size_bytes)
        key = (conversation.key[0], item_id)
        self._item_rows[key] = (*self._item_rows.get(key, ()), item.row)

    def _drop_item(self, conversation: Conversation, item_id: str) -> None:
        item = conversation.items.pop(item_id)
        self._grow(conversation, -item.size_bytes)
        self._shelf.drop(CONVERSATION_ITEMS, item.row)
        key = (conversation.key[0], item_id)
        rows = tuple(row for row in self._item_rows[key] if row != item.row)
        if rows:
            self._item_rows[key] = rows
        else:
            del self._item_rows[key]

    def _grow(self, conversation: Conversation, more_bytes: int) -> None:
        conversation.num_bytes += more_bytes
        if conversation.num_pins == 0:
            self.num_bytes += more_bytes

    def _drop(self, conversation: Conversation) -> None:
        for item_id in list(conversation.items):
            self._drop_item(conversation, item_id)
        if conversation.num_pins == 0:
            self.num_bytes -= conversation.num_bytes
        del self._conversations[conversation.key]
        self._recency.drop(conversation)
        self._shelf.drop(CONVERSATIONS, conversation.row)

    def _evict(self) -> None:
        bounds = self._bounds
        while len(self._recency) > 0 and (
            len(self._recency) > bounds.max_entries or self.num_bytes > bounds.max_bytes
        ):
            self._drop(self._recency.least_used())

    def _read(self, rows: Iterable[int]) -> tuple[ItemRecord, ...]:
        found = (self._shelf.get(CONVERSATION_ITEMS, row) for row in rows)
        return tuple(ItemRecord(row.item_id, row.body) for row in found)


def _to_record(row: ConversationRow) -> ConversationRecord:
    return ConversationRecord(row.conversation_id, row.owner, row.created_at, row.body)
