"""The rules of every store, over an index in memory and a shelf that has the texts."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from stores.chains import Key
from stores.conversations import Conversation, ConversationLedger
from stores.errors import HistoryTooLargeError, StoreDisabledError
from stores.responses import ResponseLedger
from stores.shelf import Shelf
from stores.types import (
    ConversationLink,
    ConversationRecord,
    History,
    HistoryQuery,
    ItemPage,
    ItemRecord,
    PageQuery,
    ResponseRecord,
    StoreBounds,
)

# The settings that a disabled store names.
RESPONSES_SETTING = "responses_store_max_entries"
CONVERSATIONS_SETTING = "conversation_store_max_entries"


class Index:
    """What a store knows without reading a text, and what links responses and conversations."""

    def __init__(self, bounds: StoreBounds, shelf: Shelf) -> None:
        self.responses = ResponseLedger(bounds.responses, shelf)
        self.conversations = ConversationLedger(bounds.conversations, shelf)
        self.pinned: dict[Key, Conversation] = {}
        """The conversations that responses in progress pin, by the keys of the responses."""

    def pin(self, key: Key, link: ConversationLink | None) -> None:
        """Pin the conversation of a response that begins, if it is there."""
        if link is not None:
            pinned = self.conversations.pin(key[0], link.conversation_id, link.serial)
            if pinned is not None:
                self.pinned[key] = pinned

    def unpin(self, key: Key, now_s: float) -> None:
        pinned = self.pinned.pop(key, None)
        if pinned is not None:
            self.conversations.unpin(pinned, now_s)

    def expire(self, now_s: float) -> None:
        self.responses.expire(now_s)
        self.conversations.expire(now_s)


class BoundedStore:
    """A `Store` but for its calls' beginning and end. No two calls may overlap.

    A subclass makes the index and says what a call is (`_call`, `_peek`). Every call first drops
    what has expired since the last one, which makes a background task needless.
    """

    _index: Index

    def __init__(self, bounds: StoreBounds, clock: Callable[[], float]) -> None:
        self._bounds = bounds
        self._clock = clock
        self._now_s = clock()

    @property
    def bounds(self) -> StoreBounds:
        return self._bounds

    # ── responses ────────────────────────────────────────────────────────────────────────────────

    def begin(self, record: ResponseRecord) -> None:
        key = (record.owner, record.response_id)
        with self._call():
            if not self._index.responses.is_begun(key):
                self._index.responses.begin(record, self._now_s)
                self._index.pin(key, record.conversation)

    def finish(self, record: ResponseRecord) -> None:
        key = (record.owner, record.response_id)
        with self._call():
            if self._index.responses.can_end(key):
                beginning = self._index.responses.read_beginning(record)
                self._index.responses.finish(record, beginning.conversation, self._now_s)
                if record.status in ("completed", "incomplete"):
                    items = beginning.new_input + record.output
                    self._append_end(record, beginning.conversation, items)
                self._index.unpin(key, self._now_s)

    def get(self, response_id: str, owner: str) -> ResponseRecord | None:
        self._check_responses()
        with self._peek():
            return self._index.responses.get((owner, response_id))

    def delete(self, response_id: str, owner: str) -> bool:
        self._check_responses()
        with self._call():
            return self._index.responses.delete((owner, response_id))

    def list_running(self) -> tuple[ResponseRecord, ...]:
        with self._peek():
            return self._index.responses.list_running()

    def list_input_items(self, response_id: str, owner: str, query: PageQuery) -> ItemPage | None:
        self._check_responses()
        with self._peek():
            return self._index.responses.list_input_items((owner, response_id), query)

    # ── both ─────────────────────────────────────────────────────────────────────────────────────

    def read_history(self, query: HistoryQuery) -> History:
        if query.parent_id is not None:
            self._check_responses()
        if query.conversation_id is not None:
            self._check_conversations()
        with self._peek():
            index, owner = self._index, query.owner
            status, serial = None, None
            items: tuple[ItemRecord, ...] = ()
            if query.parent_id is not None:
                key = (owner, query.parent_id)
                _check_weight(index.responses.weigh_chain(key), query)
                status, items = index.responses.read_chain(key)
            if query.conversation_id is not None:
                key = (owner, query.conversation_id)
                _check_weight(index.conversations.weigh(key), query)
                serial, more_items = index.conversations.read(key)
                items += more_items
            return History(items, status, serial, self._find_items(query, items))

    # ── conversations ────────────────────────────────────────────────────────────────────────────

    def create_conversation(
        self, record: ConversationRecord, items: tuple[ItemRecord, ...]
    ) -> None:
        self._check_conversations()
        with self._call():
            self._index.conversations.create(record, items, self._now_s)

    def get_conversation(self, conversation_id: str, owner: str) -> ConversationRecord | None:
        self._check_conversations()
        with self._peek():
            return self._index.conversations.get((owner, conversation_id))

    def update_conversation(
        self, conversation_id: str, owner: str, metadata: str
    ) -> ConversationRecord | None:
        self._check_conversations()
        with self._call():
            return self._index.conversations.update((owner, conversation_id), metadata)

    def delete_conversation(self, conversation_id: str, owner: str) -> bool:
        self._check_conversations()
        with self._call():
            return self._index.conversations.delete((owner, conversation_id))

    def append_items(self, conversation_id: str, owner: str, items: tuple[ItemRecord, ...]) -> bool:
        self._check_conversations()
        with self._call():
            return self._index.conversations.append((owner, conversation_id), items, self._now_s)

    def list_conversation_items(
        self, conversation_id: str, owner: str, query: PageQuery
    ) -> ItemPage | None:
        self._check_conversations()
        with self._peek():
            return self._index.conversations.list_items((owner, conversation_id), query)

    def get_conversation_item(
        self, conversation_id: str, owner: str, item_id: str
    ) -> ItemRecord | None:
        self._check_conversations()
        with self._peek():
            return self._index.conversations.get_item((owner, conversation_id), item_id)

    def delete_conversation_item(
        self, conversation_id: str, owner: str, item_id: str
    ) -> ConversationRecord | None:
        self._check_conversations()
        with self._call():
            return self._index.conversations.delete_item((owner, conversation_id), item_id)

    # ── what a subclass says ─────────────────────────────────────────────────────────────────────

    def _call(self) -> AbstractContextManager[None]:
        """A call that changes something: begins with `_tick`, happens wholly or not at all."""
        raise NotImplementedError

    def _peek(self) -> AbstractContextManager[None]:
        """A call that only reads, and so may succeed where nothing can be written."""
        raise NotImplementedError

    # ── steps ────────────────────────────────────────────────────────────────────────────────────

    def _tick(self) -> None:
        """Read the clock, once a call, and drop what has expired."""
        self._now_s = max(self._now_s, self._clock())
        self._index.expire(self._now_s)

    def _check_responses(self) -> None:
        if self._bounds.responses.max_entries == 0:
            raise StoreDisabledError(RESPONSES_SETTING)

    def _check_conversations(self) -> None:
        if self._bounds.conversations.max_entries == 0:
            raise StoreDisabledError(CONVERSATIONS_SETTING)

    def _append_end(
        self,
        record: ResponseRecord,
        link: ConversationLink | None,
        items: tuple[ItemRecord, ...],
    ) -> None:
        """Append the items of a response that has ended well to its conversation, if it has one."""
        if link is not None and self._bounds.conversations.max_entries > 0:
            made = ConversationRecord(link.conversation_id, record.owner, record.created_at, "{}")
            self._index.conversations.append_end(made, link.serial, items, self._now_s)

    def _find_items(
        self, query: HistoryQuery, history: tuple[ItemRecord, ...]
    ) -> dict[str, ItemRecord]:
        """The items that a query names, as far as this owner has them."""
        named: dict[str, ItemRecord] = {}
        num_bytes = sum(item.size_bytes for item in history) if query.item_ids else 0
        for item_id in query.item_ids:
            item = self._find_item(query.owner, item_id)
            if item is not None:
                num_bytes += item.size_bytes
                _check_weight(num_bytes, query)
                named[item_id] = item
        return named

    def _find_item(self, owner: str, item_id: str) -> ItemRecord | None:
        found = self._index.responses.find_item(owner, item_id)
        return found or self._index.conversations.find_item(owner, item_id)


def _check_weight(num_bytes: int, query: HistoryQuery) -> None:
    if num_bytes > query.max_bytes:
        raise HistoryTooLargeError(
            f"What this request goes on from has {num_bytes} bytes or more; {query.max_bytes} are "
            "the most."
        )
