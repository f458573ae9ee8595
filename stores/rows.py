"""What a shelf keeps: rows of six tables, each with a number that no other row ever has."""

from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

RowT = TypeVar("RowT", bound="tuple[object, ...]")


@dataclass(frozen=True, slots=True)
class Table(Generic[RowT]):
    """A kind of row. The first field of `row_type` is the row's number, the last may be its body.

    The fields are of these types: int, float, str, int | None, str | None, tuple[int, ...].
    """

    name: str
    row_type: type[RowT]


class ItemRow(NamedTuple):
    """An item of one response or of several."""

    row: int
    owner: str
    item_id: str
    body: str


class NodeRow(NamedTuple):
    """A response that has ended, as its descendants need it: `items` are rows of items."""

    row: int
    parent: int | None
    owner: str
    response_id: str
    num_input: int
    items: tuple[int, ...]


class EntryRow(NamedTuple):
    """A response that has ended, as it is read by its id; the row of its node has the same number.

    The conversation is that of a failed one, which may yet come to a good end.
    """

    row: int
    status: str
    created_at: int
    conversation_id: str | None
    serial: int | None
    num_read: int
    body: str


class RunningRow(NamedTuple):
    """A response in progress, or the hold of one that was deleted; `begun_s` is when it began."""

    row: int
    parent: int | None
    owner: str
    response_id: str
    num_input: int
    items: tuple[int, ...]
    created_at: int
    conversation_id: str | None
    serial: int | None
    num_read: int
    begun_s: float
    is_hold: int
    body: str


class ConversationRow(NamedTuple):
    """A conversation; its number is its serial, its body the metadata."""

    row: int
    owner: str
    conversation_id: str
    created_at: int
    body: str


class ConversationItemRow(NamedTuple):
    """An item of one conversation, whose items are in the order of their numbers."""

    row: int
    conversation: int
    item_id: str
    body: str


class LifeRow(NamedTuple):
    """When the entry or conversation of that number was put, and which use was its last."""

    row: int
    since_s: float
    used: int


ITEMS: Final = Table("items", ItemRow)
NODES: Final = Table("nodes", NodeRow)
ENTRIES: Final = Table("entries", EntryRow)
RUNNING: Final = Table("running", RunningRow)
CONVERSATIONS: Final = Table("conversations", ConversationRow)
CONVERSATION_ITEMS: Final = Table("conversation_items", ConversationItemRow)
LIVES: Final = Table("lives", LifeRow)
