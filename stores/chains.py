"""What responses need of one another: their items, and the nodes that link them to their parents.

A node is a response that has ended, without what is read by its id. It is there for as long as its
entry, another node or a response in progress needs it, and so are its items. Chains may be
thousands of nodes long: nothing here recurses.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from stores.rows import ITEMS, NODES, ItemRow, NodeRow
from stores.shelf import Shelf
from stores.types import (
    ITEM_OVERHEAD_BYTES,
    NODE_OVERHEAD_BYTES,
    REFERENCE_BYTES,
    ItemRecord,
    text_bytes,
)

# An owner, and an id of that owner's.
Key = tuple[str, str]


@dataclass(slots=True, eq=False)
class Item:
    """An item on the shelf, and how many nodes and how many responses in progress refer to it."""

    row: int
    key: Key
    size_bytes: int
    num_nodes: int = 0
    num_holds: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """`chain_bytes` is at least what it and its ancestors weigh: it counts shared items again."""

    row: int
    key: Key
    parent: "Node | None"
    num_input: int
    items: tuple[Item, ...]
    num_needs: int = 0

    own_bytes: int = 0
    chain_bytes: int = 0

    def __post_init__(self) -> None:
        self.own_bytes = node_bytes(self.key, len(self.items))
        self.chain_bytes = self.own_bytes + sum(item.size_bytes for item in self.items)
        if self.parent is not None:
            self.chain_bytes += self.parent.chain_bytes


def node_bytes(key: Key, num_items: int) -> int:
    """What a node weighs without its items."""
    return NODE_OVERHEAD_BYTES + text_bytes(*key) + num_items * REFERENCE_BYTES


def item_bytes(item_id: str, body_bytes: int) -> int:
    return ITEM_OVERHEAD_BYTES + text_bytes(item_id) + body_bytes


class Chains:
    """All nodes and items of a store, counted."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._items: dict[Key, Item] = {}
        self.num_bytes = 0
        """What all nodes weigh and all their items, each once."""

    def load_item(self, row: ItemRow, body_bytes: int) -> Item:
        """Take over an item that is on the shelf."""
        key = (row.owner, row.item_id)
        item = Item(row.row, key, item_bytes(row.item_id, body_bytes))
        if self._items.setdefault(key, item) is not item:
            raise ValueError("An item is there twice.")
        return item

    def load_node(self, row: NodeRow, parent: Node | None, items: tuple[Item, ...]) -> Node:
        """Take over a node that is on the shelf, after its parent."""
        key = (row.owner, row.response_id)
        return self._insert(Node(row.row, key, parent, row.num_input, items))

    def load_end(self, nodes: Iterable[Node]) -> None:
        """Drop what nothing needs, once all that needs anything is loaded."""
        for node in [node for node in nodes if node.num_needs == 0]:
            self._remove(node)
        for item in list(self._items.values()):
            self._sweep(item)

    def hold(self, owner: str, records: Iterable[ItemRecord]) -> tuple[Item, ...]:
        """Keep items, new ones and those that are there, until `let_go`."""
        items = []
        for record in records:
            key = (owner, record.item_id)
            item = self._items.get(key)
            if item is None:
                item = Item(self._shelf.next_number(), key, record.size_bytes)
                self._items[key] = item
                self._shelf.put(ITEMS, ItemRow(item.row, owner, record.item_id, record.body))
            item.num_holds += 1
            items.append(item)
        return tuple(items)

    def hold_again(self, items: Iterable[Item]) -> None:
        for item in items:
            item.num_holds += 1

    def let_go(self, items: Iterable[Item]) -> None:
        for item in items:
            item.num_holds -= 1
            self._sweep(item)

    def add(
        self, key: Key, parent: Node | None, new_input: tuple[Item, ...], output: tuple[Item, ...]
    ) -> Node:
        """A new node; its items are held or another node's."""
        items = new_input + output
        row = NodeRow(
            row=self._shelf.next_number(),
            parent=None if parent is None else parent.row,
            owner=key[0],
            response_id=key[1],
            num_input=len(new_input),
            items=tuple(item.row for item in items),
        )
        self._shelf.put(NODES, row)
        return self._insert(Node(row.row, key, parent, row.num_input, items))

    def need(self, node: Node | None) -> None:
        if node is not None:
            node.num_needs += 1

    def release(self, node: Node | None) -> None:
        """One thing less needs the node; the last that does so takes it along, and so on up."""
        if node is not None:
            node.num_needs -= 1
            if node.num_needs == 0:
                self._remove(node)

    def find(self, owner: str, item_id: str) -> Item | None:
        """An item of a node; one that is held alone names nothing."""
        item = self._items.get((owner, item_id))
        return item if item is not None and item.num_nodes > 0 else None

    def read(self, items: Iterable[Item]) -> tuple[ItemRecord, ...]:
        rows = (self._shelf.get(ITEMS, item.row) for item in items)
        return tuple(ItemRecord(row.item_id, row.body) for row in rows)

    def _insert(self, node: Node) -> Node:
        self.need(node.parent)
        self.num_bytes += node.own_bytes
        for item in node.items:
            if item.num_nodes == 0:
                self.num_bytes += item.size_bytes
            item.num_nodes += 1
        return node

    def _remove(self, node: Node) -> None:
        """Remove a node that nothing needs, and its ancestors that nothing else needs."""
        unneeded: Node | None = node
        while unneeded is not None:
            self._shelf.drop(NODES, unneeded.row)
            self.num_bytes -= unneeded.own_bytes
            for item in unneeded.items:
                item.num_nodes -= 1
                if item.num_nodes == 0:
                    self.num_bytes -= item.size_bytes
                self._sweep(item)
            parent = unneeded.parent
            if parent is not None:
                parent.num_needs -= 1
            unneeded = parent if parent is not None and parent.num_needs == 0 else None

    def _sweep(self, item: Item) -> None:
        """Drop an item that nothing refers to, once."""
        is_there = self._items.get(item.key) is item
        if is_there and item.num_nodes == 0 and item.num_holds == 0:
            del self._items[item.key]
            self._shelf.drop(ITEMS, item.row)


def list_chain(node: Node | None) -> list[Item]:
    """The items of a node and of its ancestors, the oldest first."""
    nodes = []
    while node is not None:
        nodes.append(node)
        node = node.parent
    return [item for each in reversed(nodes) for item in each.items]


def weigh_union(starts: Iterable[Node | None], items: Iterable[Item]) -> int:
    """What the chains of some nodes and some items beside weigh, what they share counted once."""
    seen: set[Node] = set()
    weighed = set(items)
    for start in starts:
        node = start
        while node is not None and node not in seen:
            seen.add(node)
            weighed.update(node.items)
            node = node.parent
    return sum(node.own_bytes for node in seen) + sum(item.size_bytes for item in weighed)
