"""A store of a few plain lists that works everything out anew at each step."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from stores.errors import (
    ConversationFullError,
    ParentGoneError,
    StoreDisabledError,
    UnknownItemError,
)
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

ENTRY_BYTES, NODE_BYTES, ITEM_BYTES, REFERENCE_BYTES = 768, 256, 256, 8


@dataclass(eq=False)
class Response:
    """A response that runs or has ended: its record is whole, with input and conversation."""

    record: ResponseRecord
    parent: "Response | None"
    since_s: float
    is_hold: bool = False
    pinned: "Conversation | None" = None

    def has_key(self, response_id: str, owner: str) -> bool:
        return (self.record.response_id, self.record.owner) == (response_id, owner)

    def lineage(self) -> list["Response"]:
        """The first ancestor, …, the parent, the response itself."""
        return [*(self.parent.lineage() if self.parent else []), self]

    def history(self) -> list[ItemRecord]:
        return [it for each in self.lineage() for it in each.record.input + each.record.output]


@dataclass(eq=False)
class Conversation:
    record: ConversationRecord
    serial: int
    since_s: float
    items: list[ItemRecord]

    @property
    def num_bytes(self) -> int:
        return weigh(self.record.metadata, *self.key, 1024) + sum(map(weigh_item, self.items))

    @property
    def key(self) -> tuple[str, str]:
        return self.record.conversation_id, self.record.owner


def weigh(*parts: str | int) -> int:
    return sum(it if isinstance(it, int) else len(it.encode()) for it in parts)


def weigh_item(item: ItemRecord) -> int:
    return weigh(ITEM_BYTES, item.item_id, item.body)


class NaiveStore:
    """Follows `stores.types.Store`. The lists have the least recently used first."""

    def __init__(self, bounds: StoreBounds) -> None:
        self.bounds = bounds
        self.now_s = 0.0
        self.entries: list[Response] = []
        self.running: list[Response] = []
        self.conversations: list[Conversation] = []
        self.last_serial = 0

    # ── what follows from the lists ──────────────────────────────────────────────────────────────

    def nodes(self, entries: list[Response]) -> set[Response]:
        """What some entries and all that runs need."""
        needing = entries + [it.parent for it in self.running if it.parent and not it.is_hold]
        return {node for it in needing for node in it.lineage()}

    def num_bytes(self, entries: list[Response]) -> int:
        total = sum(weigh(ENTRY_BYTES, it.record.body) for it in entries)
        items = {}
        for node in self.nodes(entries):
            record = node.record
            total += weigh(NODE_BYTES, record.response_id, record.owner)
            for item in record.input + record.output:
                total += REFERENCE_BYTES
                items[record.owner, item.item_id] = item
        return total + sum(map(weigh_item, items.values()))

    def is_pinned(self, conversation: Conversation) -> bool:
        return any(it.pinned is conversation for it in self.running)

    def counted(self) -> list[Conversation]:
        return [it for it in self.conversations if not self.is_pinned(it)]

    # ── rules ────────────────────────────────────────────────────────────────────────────────────

    def is_over(self, since_s: float, ttl_s: int) -> bool:
        return ttl_s > 0 and self.now_s - since_s >= ttl_s

    def expire(self) -> None:
        ttl_s = self.bounds.responses.ttl_s
        self.entries = [it for it in self.entries if not self.is_over(it.since_s, ttl_s)]
        for it in self.counted():
            if self.is_over(it.since_s, self.bounds.conversations.ttl_s):
                self.conversations.remove(it)

    def evict_responses(self) -> None:
        most = self.bounds.responses
        while self.entries and (
            len(self.entries) > most.max_entries or self.num_bytes(self.entries) > most.max_bytes
        ):
            self.entries.pop(0)

    def evict_conversations(self) -> None:
        most = self.bounds.conversations
        while (counted := self.counted()) and (
            len(counted) > most.max_entries or sum(it.num_bytes for it in counted) > most.max_bytes
        ):
            self.conversations.remove(counted[0])

    def settle(self, conversation: Conversation | None) -> None:
        """A response that had it pinned has ended, or appended to it."""
        if conversation not in self.conversations or self.is_pinned(conversation):
            return
        self.conversations.remove(conversation)
        bounds = self.bounds.conversations
        fits = conversation.num_bytes <= bounds.max_bytes
        if fits and not self.is_over(conversation.since_s, bounds.ttl_s):
            self.conversations.append(conversation)
        self.evict_conversations()

    def reopen(self, bounds: StoreBounds) -> None:
        """What a store in a file does that starts again, with these bounds."""
        self.bounds = bounds
        if bounds.responses.max_entries == 0:
            for it in self.running:
                self.to_hold(it)
        self.expire()
        most = bounds.responses.max_bytes
        self.entries = [it for it in self.entries if self.num_bytes([it]) <= most]
        for conversation in self.counted():
            if conversation.num_bytes > bounds.conversations.max_bytes:
                self.conversations.remove(conversation)
        self.evict_responses()
        self.evict_conversations()

    # ── responses ────────────────────────────────────────────────────────────────────────────────

    def find(self, response_id: str, owner: str, among: list[Response]) -> Response | None:
        return next((it for it in among if it.has_key(response_id, owner)), None)

    def find_visible(self, response_id: str, owner: str) -> Response | None:
        """A response that can be read, which is a use of it."""
        visible = [it for it in self.running if not it.is_hold]
        entry = self.find(response_id, owner, self.entries)
        if entry:
            self.entries.remove(entry)
            self.entries.append(entry)
        return entry or self.find(response_id, owner, visible)

    def take_parent(self, record: ResponseRecord) -> Response | None:
        if record.parent_id is None:
            return None
        parent = self.find(record.parent_id, record.owner, self.entries)
        if parent is None or parent.record.status == "failed":
            raise ParentGoneError("")
        self.find_visible(record.parent_id, record.owner)
        return parent

    def begin(self, record: ResponseRecord) -> None:
        self.expire()
        if self.find(record.response_id, record.owner, self.running + self.entries):
            return
        is_kept = self.bounds.responses.max_entries > 0
        parent = self.take_parent(record) if is_kept else None
        link, pinned = record.conversation, None
        if link:
            key = (link.conversation_id, record.owner)
            alike = (it for it in self.conversations if (it.key, it.serial) == (key, link.serial))
            pinned = next(alike, None)
        if link or is_kept:
            self.running.append(Response(record, parent, self.now_s, not is_kept, pinned))

    def finish(self, record: ResponseRecord) -> None:
        self.expire()
        key = (record.response_id, record.owner)
        begun, entry = self.find(*key, self.running), self.find(*key, self.entries)
        if entry and entry.record.status != "failed":
            return
        beginning = begun or entry
        if beginning is None:
            is_kept = self.bounds.responses.max_entries > 0
            beginning = Response(record, self.take_parent(record) if is_kept else None, self.now_s)
            beginning.is_hold = not is_kept
        link, new = beginning.record.conversation, beginning.record.input
        ended = Response(
            replace(record, input=new, conversation=link), beginning.parent, self.now_s
        )
        self.running = [it for it in self.running if it is not begun]
        self.entries = [it for it in self.entries if it is not entry]
        fits = self.num_bytes([ended]) <= self.bounds.responses.max_bytes
        if not beginning.is_hold and fits:
            self.entries.append(ended)
        self.evict_responses()
        if link and record.status in ("completed", "incomplete"):
            self.append_end(record, link, new[link.num_read :] + record.output)
        self.settle(beginning.pinned)

    def append_end(
        self, record: ResponseRecord, link: ConversationLink, items: Iterable[ItemRecord]
    ) -> None:
        found = self.find_conversation(link.conversation_id, record.owner, is_use=False)
        if self.bounds.conversations.max_entries == 0 or (found is None and link.serial):
            return
        if found is None:
            made = ConversationRecord(link.conversation_id, record.owner, record.created_at, "{}")
            found = self.add_conversation(made)
        if link.serial in (None, found.serial):
            found.items += self.unknown(found, items)
            found.since_s = self.now_s
            self.settle(found)

    def get(self, response_id: str, owner: str) -> ResponseRecord | None:
        self.check_responses()
        found = self.find_visible(response_id, owner)
        if found is None:
            return None
        parent_id = found.parent.record.response_id if found.parent else None
        return replace(found.record, input=(), conversation=None, parent_id=parent_id)

    def delete(self, response_id: str, owner: str) -> bool:
        self.check_responses()
        found = self.find_visible(response_id, owner)
        if found in self.entries:
            self.entries.remove(found)
        elif found:
            self.to_hold(found)
        return found is not None

    def to_hold(self, running: Response) -> None:
        running.is_hold, running.parent = True, None

    def list_running(self) -> tuple[ResponseRecord, ...]:
        return tuple(replace(it.record, input=()) for it in self.running if not it.is_hold)

    def list_input_items(self, response_id: str, owner: str, query: PageQuery) -> ItemPage | None:
        self.check_responses()
        order = list(self.entries)
        found = self.find_visible(response_id, owner)
        if found is None:
            return None
        history = found.parent.history() if found.parent else []
        try:
            return cut(history + list(found.record.input), query)
        except UnknownItemError:
            self.entries = order  # what is refused is no use
            raise

    # ── both ─────────────────────────────────────────────────────────────────────────────────────

    def read_history(self, query: HistoryQuery) -> History:
        if query.parent_id is not None:
            self.check_responses()
        if query.conversation_id is not None:
            self.check_conversations()
        self.expire()
        parent = conversation = None
        if query.parent_id is not None:
            parent = self.find_visible(query.parent_id, query.owner)
        if query.conversation_id is not None:
            conversation = self.find_conversation(query.conversation_id, query.owner)
        items = list(conversation.items) if conversation else []
        if parent and parent.record.status not in ("in_progress", "failed"):
            items = parent.history() + items
        known = [it for node in self.nodes(self.entries) if node.record.owner == query.owner
                 for it in node.record.input + node.record.output]  # fmt: skip
        known += [it for conversation in self.conversations if conversation.key[1] == query.owner
                  for it in conversation.items]  # fmt: skip
        return History(
            items=tuple(items),
            parent_status=parent.record.status if parent else None,
            conversation_serial=conversation.serial if conversation else None,
            found={it.item_id: it for it in known if it.item_id in query.item_ids},
        )

    # ── conversations ────────────────────────────────────────────────────────────────────────────

    def find_conversation(
        self, conversation_id: str, owner: str, *, is_use: bool = True
    ) -> Conversation | None:
        found = next((it for it in self.conversations if it.key == (conversation_id, owner)), None)
        if found and is_use:
            self.conversations.remove(found)
            self.conversations.append(found)
        return found

    def add_conversation(self, record: ConversationRecord) -> Conversation:
        self.last_serial += 1
        self.conversations.append(Conversation(record, self.last_serial, self.now_s, []))
        return self.conversations[-1]

    def unknown(self, to: Conversation, items: Iterable[ItemRecord]) -> list[ItemRecord]:
        return list(dict.fromkeys(it for it in items if it not in to.items))

    def create_conversation(
        self, record: ConversationRecord, items: tuple[ItemRecord, ...]
    ) -> None:
        self.check_conversations()
        if self.find_conversation(record.conversation_id, record.owner, is_use=False) is None:
            made = self.add_conversation(record)
            made.items += self.unknown(made, items)
            if made.num_bytes > self.bounds.conversations.max_bytes > 0:
                self.conversations.remove(made)
                raise ConversationFullError("")
            self.settle(made)

    def get_conversation(self, conversation_id: str, owner: str) -> ConversationRecord | None:
        self.check_conversations()
        found = self.find_conversation(conversation_id, owner)
        return found.record if found else None

    def update_conversation(
        self, conversation_id: str, owner: str, metadata: str
    ) -> ConversationRecord | None:
        self.check_conversations()
        found = self.find_conversation(conversation_id, owner, is_use=False)
        if found is None:
            return None
        self.check_room(found, weigh(metadata) - weigh(found.record.metadata))
        found.record = replace(found.record, metadata=metadata)
        self.find_conversation(conversation_id, owner)
        self.evict_conversations()
        return found.record

    def check_room(self, conversation: Conversation, more_bytes: int) -> None:
        most = self.bounds.conversations.max_bytes
        if more_bytes > 0 and conversation.num_bytes + more_bytes > most:
            raise ConversationFullError("")

    def delete_conversation(self, conversation_id: str, owner: str) -> bool:
        self.check_conversations()
        found = self.find_conversation(conversation_id, owner)
        if found:
            self.conversations.remove(found)
        return found is not None

    def append_items(self, conversation_id: str, owner: str, items: tuple[ItemRecord, ...]) -> bool:
        self.check_conversations()
        found = self.find_conversation(conversation_id, owner, is_use=False)
        if found is None:
            return False
        new = self.unknown(found, items)
        self.check_room(found, sum(map(weigh_item, new)))
        found.items += new
        found.since_s = self.now_s
        self.find_conversation(conversation_id, owner)
        self.evict_conversations()
        return True

    def list_conversation_items(
        self, conversation_id: str, owner: str, query: PageQuery
    ) -> ItemPage | None:
        self.check_conversations()
        found = self.find_conversation(conversation_id, owner, is_use=False)
        if found is None:
            return None
        page = cut(found.items, query)
        self.find_conversation(conversation_id, owner)
        return page

    def get_conversation_item(
        self, conversation_id: str, owner: str, item_id: str
    ) -> ItemRecord | None:
        self.check_conversations()
        found = self.find_conversation(conversation_id, owner)
        return next((it for it in found.items if it.item_id == item_id), None) if found else None

    def delete_conversation_item(
        self, conversation_id: str, owner: str, item_id: str
    ) -> ConversationRecord | None:
        self.check_conversations()
        found = self.find_conversation(conversation_id, owner, is_use=False)
        if found is None or item_id not in [it.item_id for it in found.items]:
            return None
        found.items = [it for it in found.items if it.item_id != item_id]
        return self.get_conversation(conversation_id, owner)

    # ── checks ───────────────────────────────────────────────────────────────────────────────────

    def check_responses(self) -> None:
        if self.bounds.responses.max_entries == 0:
            raise StoreDisabledError("responses_store_max_entries")
        self.expire()

    def check_conversations(self) -> None:
        if self.bounds.conversations.max_entries == 0:
            raise StoreDisabledError("conversation_store_max_entries")
        self.expire()


def cut(items: list[ItemRecord], query: PageQuery) -> ItemPage:
    if query.after is not None and query.after not in [it.item_id for it in items]:
        raise UnknownItemError("")
    ordered = items[::-1] if query.is_descending else items
    if query.after is not None:
        while query.after in [it.item_id for it in ordered]:
            ordered = ordered[1:]
    return ItemPage(tuple(ordered[: query.limit]), len(ordered) > query.limit)
