"""Makes the index of what is on a shelf, and drops there what the bounds do not allow any more."""

from typing import Final

from stores.bounded import Index
from stores.chains import Item, Node
from stores.rows import (
    CONVERSATION_ITEMS,
    CONVERSATIONS,
    ENTRIES,
    ITEMS,
    LIVES,
    NODES,
    RUNNING,
    LifeRow,
)
from stores.running import to_link
from stores.schema import DamagedRowError
from stores.sqlite_shelf import SqliteShelf
from stores.types import StoreBounds

# A response that was deleted while it ran is waited for that long, across restarts.
LOST_AFTER_S: Final = 86_400.0


def load_index(bounds: StoreBounds, shelf: SqliteShelf, now_s: float) -> Index:
    """The index of all rows, without reading a body.

    Raises:
        DamagedRowError: where rows contradict one another.
    """
    index = Index(bounds, shelf)
    try:
        _load(index, shelf, now_s)
    except (LookupError, ValueError, TypeError) as error:
        raise DamagedRowError(f"rows contradict one another: {error!r}") from error
    return index


def _load(index: Index, shelf: SqliteShelf, now_s: float) -> None:
    lives = {life.row: life for life, _ in shelf.scan(LIVES)}
    nodes = _load_responses(index, shelf, lives, now_s)
    _load_conversations(index, shelf, lives, now_s)
    for row in lives:
        shelf.drop(LIVES, row)
    for key in index.responses.running.list_lost_holds(now_s - LOST_AFTER_S):
        index.responses.running.end(key)
    index.responses.load_end(nodes, now_s)
    for running in index.responses.running:
        index.pin(running.key, to_link(index.responses.running.read(running)))
    index.conversations.load_end(now_s)


def _load_responses(
    index: Index, shelf: SqliteShelf, lives: dict[int, LifeRow], now_s: float
) -> list[Node]:
    """Parents come before their children, whose numbers are larger."""
    chains = index.responses.chains
    items: dict[int, Item] = {
        row.row: chains.load_item(row, body_bytes) for row, body_bytes in shelf.scan(ITEMS)
    }
    nodes: dict[int | None, Node | None] = {None: None}
    loaded = []
    for row, _ in shelf.scan(NODES):
        referred = tuple(items[number] for number in row.items)
        node = chains.load_node(row, nodes[row.parent], referred)
        nodes[row.row] = node
        loaded.append(node)
    for running, _ in shelf.scan(RUNNING):
        held = tuple(items[number] for number in running.items)
        index.responses.running.load(running, nodes[running.parent], held)
    by_row = {node.row: node for node in loaded}
    rows = [
        (entry, body_bytes, by_row[entry.row], lives.pop(entry.row))
        for entry, body_bytes in shelf.scan(ENTRIES)
    ]
    index.responses.load_entries(rows, now_s)
    return loaded


def _load_conversations(
    index: Index, shelf: SqliteShelf, lives: dict[int, LifeRow], now_s: float
) -> None:
    rows = [
        (row, metadata_bytes, lives.pop(row.row))
        for row, metadata_bytes in shelf.scan(CONVERSATIONS)
    ]
    conversations = index.conversations.load(rows, now_s)
    for item, body_bytes in shelf.scan(CONVERSATION_ITEMS):
        index.conversations.load_item(conversations[item.conversation], item, body_bytes)
