"""Records of the store and the protocol that every store of them follows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

RecordStatus = Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]

# What a record and an item cost beside their text: what their objects and rows take, and the unused
# ends of their pages, so that a file is seldom larger than its bound (benchmarks/LOG.md). Of a
# response's, the smaller part stays for as long as a descendant needs it, as do its id, its owner,
# and what it costs a response to refer to an item, which may be another's too.
RECORD_OVERHEAD_BYTES: Final = 1024
NODE_OVERHEAD_BYTES: Final = 256
ITEM_OVERHEAD_BYTES: Final = 256
REFERENCE_BYTES: Final = 8

# More than any context holds; what is read is copied several times on its way to a model.
MAX_HISTORY_BYTES: Final = 64 * 2**20


def text_bytes(*texts: str) -> int:
    """Bytes of texts as UTF-8; a lone surrogate, which JSON can spell, counts three."""
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


@dataclass(frozen=True, slots=True)
class ItemRecord:
    """One item of an input or an output. `body` is JSON that the store never reads.

    Ids are made by the server, and one owner's id has one body for ever: an item that two
    responses have is kept, and counted, once.
    """

    item_id: str
    body: str

    @property
    def size_bytes(self) -> int:
        return ITEM_OVERHEAD_BYTES + text_bytes(self.item_id, self.body)


@dataclass(frozen=True, slots=True)
class ConversationLink:
    """The conversation that a response belongs to, as it was when its history was read.

    `serial` is that of the conversation, None where there was none yet: the response starts it.
    The first `num_read` items of the response's input were read from it.
    """

    conversation_id: str
    serial: int | None
    num_read: int


@dataclass(frozen=True, slots=True)
class ResponseRecord:
    """One response as it is kept: `body` is JSON that the store never reads.

    `created_at` is in whole seconds since the Unix epoch. `owner` names who may see the record:
    owners share nothing, so that the same `response_id` under two owners is two records. The
    history of a response is that of `parent_id`, then the parent's input and output; `input` is
    what came new, or with a conversation all of it.
    """

    response_id: str
    owner: str
    status: RecordStatus
    created_at: int
    body: str
    parent_id: str | None = None
    conversation: ConversationLink | None = None
    input: tuple[ItemRecord, ...] = ()
    output: tuple[ItemRecord, ...] = ()

    @property
    def own_bytes(self) -> int:
        """What the record weighs without its items."""
        return RECORD_OVERHEAD_BYTES + text_bytes(self.response_id, self.owner, self.body)

    @property
    def size_bytes(self) -> int:
        """What the record weighs alone, its items included and its ancestors not."""
        items = (*self.input, *self.output)
        return self.own_bytes + sum(REFERENCE_BYTES + item.size_bytes for item in items)


@dataclass(frozen=True, slots=True)
class ConversationRecord:
    """A conversation without its items; `metadata` is JSON that the store never reads."""

    conversation_id: str
    owner: str
    created_at: int
    metadata: str

    @property
    def own_bytes(self) -> int:
        return RECORD_OVERHEAD_BYTES + text_bytes(self.conversation_id, self.owner, self.metadata)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of one kind of records, none of them negative.

    0 entries disables the kind, 0 bytes keeps nothing (but what runs), and with 0 s nothing
    expires.
    """

    max_entries: int
    max_bytes: int
    ttl_s: int


@dataclass(frozen=True, slots=True)
class StoreBounds:
    """Limits of a store: of its responses and of its conversations, apart from each other."""

    responses: Bounds
    conversations: Bounds


@dataclass(frozen=True, slots=True)
class PageQuery:
    """At most `limit` items, newest first or oldest first, from behind the item `after` on."""

    limit: int
    after: str | None = None
    is_descending: bool = True


@dataclass(frozen=True, slots=True)
class ItemPage:
    """Items in the order that was asked for, and whether more follow."""

    items: tuple[ItemRecord, ...]
    has_more: bool


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """What a new response goes on from: a parent or a conversation, or neither.

    And the ids of items that it names in its input. All of it may weigh `max_bytes`.
    """

    owner: str
    parent_id: str | None = None
    conversation_id: str | None = None
    item_ids: tuple[str, ...] = ()
    max_bytes: int = MAX_HISTORY_BYTES


@dataclass(frozen=True, slots=True)
class History:
    """What a new response goes on from, as it was at one moment.

    `items` are those of the whole chain, or of the conversation, the oldest first. `parent_status`
    is None where there is no such parent; one that runs or has failed has no items here.
    `conversation_serial` is None where there is no such conversation. `found` has the items that
    were named and that this owner has, by their ids.
    """

    items: tuple[ItemRecord, ...] = ()
    parent_status: RecordStatus | None = None
    conversation_serial: int | None = None
    found: Mapping[str, ItemRecord] = field(default_factory=dict)


class Store(Protocol):
    """Keeps responses and conversations within their bounds.

    By last use beyond entries or bytes, by age beyond the TTL. Being read, chained from, or listed
    is a use and does not extend a life; an append renews a conversation's. What belongs to another
    owner is exactly like nothing, and asking for it is no use of it.

    A record in progress is never evicted or expired and counts in no bound until it ends.

    What a kept response needs of its ancestors stays when these are evicted, expired or deleted:
    it cannot be read by its id any more, counts in bytes (once, however many need it) and not in
    entries, and goes with the last that needs it. So does what a running response needs. An entry
    that has not room beside what running responses need is not kept, and evicts nothing.

    A conversation of a running response is neither evicted nor expired, and counts in no bound,
    until the response ends; then it is the latest used.

    Every call is one step: it happens wholly or, where it raises, not at all. All methods raise
    `StoreFaultError` where a disk fails.
    """

    @property
    def bounds(self) -> StoreBounds: ...

    # ── responses; those with an id raise StoreDisabledError where no entry is allowed ───

    def begin(self, record: ResponseRecord) -> None:
        """Keep a record in progress. Again, it changes nothing, also where it was deleted since.

        Where no response is kept, its conversation alone is held.

        Raises:
            ParentGoneError: where its parent is not there, runs or has failed.
        """
        ...

    def finish(self, record: ResponseRecord) -> None:
        """Keep a record that has ended, in place of the one in progress, and append its items.

        Its parent, conversation and input are those of its beginning where that is known, whatever
        is given here, and those given here where it is not (a store in memory that was restarted).

        To its conversation, where it is completed or incomplete: its input but the first
        `num_read`, then its output. One that has been deleted meanwhile gets nothing; one that was
        not there is made. One that is alone beyond its bounds then is gone, with a warning.

        A record that was deleted while it was in progress is not kept; its conversation gets its
        items all the same. Nor is one whose end was kept before, unless that was `failed`: the
        first end counts, but a response that was given up for lost may still come to a good one.
        Where no response is kept, its conversation gets its items all the same.

        Raises:
            ParentGoneError: where its beginning is not known and its parent is not there.
        """
        ...

    def get(self, response_id: str, owner: str) -> ResponseRecord | None:
        """The record, without its input and its conversation; None if unknown here."""
        ...

    def delete(self, response_id: str, owner: str) -> bool:
        """Forget a record, also one in progress. False where this owner has none with that id."""
        ...

    def list_running(self) -> tuple[ResponseRecord, ...]:
        """All records in progress, without their input."""
        ...

    def list_input_items(self, response_id: str, owner: str, query: PageQuery) -> ItemPage | None:
        """A page of a response's history and input; None if the response is unknown here.

        Raises:
            UnknownItemError: where the cursor is not among the items.
        """
        ...

    # ── both ─────────────────────────────────────────────────────────────────────────────────────

    def read_history(self, query: HistoryQuery) -> History:
        """What a new response goes on from. Its parent and its conversation are used thereby.

        A record in progress names no items.

        Raises:
            StoreDisabledError: where the bounds allow no entry of what is asked for; items alone
                can always be asked for.
            HistoryTooLargeError: where it weighs more than is asked for.
        """
        ...

    # ── conversations; all raise StoreDisabledError where no entry is allowed ────────────────────

    def create_conversation(
        self, record: ConversationRecord, items: tuple[ItemRecord, ...]
    ) -> None:
        """Keep a new conversation. Again, with an id that is there, it changes nothing.

        With 0 bytes it is not kept.

        Raises:
            ConversationFullError: where it is alone beyond other bounds.
        """
        ...

    def get_conversation(self, conversation_id: str, owner: str) -> ConversationRecord | None: ...

    def update_conversation(
        self, conversation_id: str, owner: str, metadata: str
    ) -> ConversationRecord | None:
        """Replace the metadata; None if unknown here.

        Raises:
            ConversationFullError: where it would be alone beyond the bounds; it stays as it was.
        """
        ...

    def delete_conversation(self, conversation_id: str, owner: str) -> bool: ...

    def append_items(self, conversation_id: str, owner: str, items: tuple[ItemRecord, ...]) -> bool:
        """Add items at the end, but those that are there. False if the conversation is unknown.

        Raises:
            ConversationFullError: where it would be alone beyond the bounds; it stays as it was.
        """
        ...

    def list_conversation_items(
        self, conversation_id: str, owner: str, query: PageQuery
    ) -> ItemPage | None:
        """A page of a conversation; None if it is unknown here.

        Raises:
            UnknownItemError: where the cursor is not among the items.
        """
        ...

    def get_conversation_item(
        self, conversation_id: str, owner: str, item_id: str
    ) -> ItemRecord | None: ...

    def delete_conversation_item(
        self, conversation_id: str, owner: str, item_id: str
    ) -> ConversationRecord | None:
        """Take an item out; None where there is no such conversation or item here."""
        ...
