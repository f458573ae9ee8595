"""Responses in progress: what they hold and need, and what is left of one that was deleted."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from stores.chains import Chains, Item, Key, Node
from stores.rows import RUNNING, EntryRow, RunningRow
from stores.shelf import Shelf
from stores.types import ConversationLink, ResponseRecord


@dataclass(slots=True, eq=False)
class Running:
    """A response in progress. One that was deleted is a hold: what its conversation gets."""

    row: int
    key: Key
    parent: Node | None
    num_input: int
    items: tuple[Item, ...]
    is_hold: bool

    @property
    def input(self) -> tuple[Item, ...]:
        return self.items[: self.num_input]


class RunningLedger:
    """All responses in progress. They hold their items, and need the chains of their parents."""

    def __init__(self, shelf: Shelf, chains: Chains) -> None:
        self._shelf = shelf
        self._chains = chains
        self._running: dict[Key, Running] = {}
        self.chain_bytes = 0
        """At least what the parents weigh with their ancestors: it counts shared ones again."""

    def __contains__(self, key: object) -> bool:
        """Whether there is one with that key, be it a hold."""
        return key in self._running

    def __iter__(self) -> Iterator[Running]:
        return iter(self._running.values())

    def load(self, row: RunningRow, parent: Node | None, items: tuple[Item, ...]) -> None:
        """Take over one that is on the shelf."""
        key = (row.owner, row.response_id)
        if key in self._running:
            raise ValueError("A response runs twice.")
        self._chains.hold_again(items)
        self._insert(Running(row.row, key, parent, row.num_input, items, bool(row.is_hold)))

    def find(self, key: Key) -> Running | None:
        """One that was not deleted."""
        running = self.find_begun(key)
        return None if running is None or running.is_hold else running

    def find_begun(self, key: Key) -> Running | None:
        """One of that key, be it a hold."""
        return self._running.get(key)

    def list_parents(self) -> list[Node]:
        return [running.parent for running in self if running.parent is not None]

    def list_lost_holds(self, before_s: float) -> list[Key]:
        """The holds of what began before a time and whose end will not come any more."""
        holds = (running for running in self if running.is_hold)
        return [it.key for it in holds if self.read(it).begun_s < before_s]

    def begin(self, record: ResponseRecord, parent: Node | None, now_s: float) -> None:
        self._put(record, parent, now_s, is_hold=False)

    def begin_hold(self, record: ResponseRecord, now_s: float) -> None:
        """Keep nothing of a record but what its conversation gets."""
        link = record.conversation
        if link is not None:
            hold = replace(
                record,
                body="",
                conversation=replace(link, num_read=0),
                input=record.input[link.num_read :],
                output=(),
            )
            self._put(hold, None, now_s, is_hold=True)

    def to_hold(self, running: Running) -> None:
        """Forget one but for what its conversation gets."""
        row = self.read(running)
        kept = () if row.conversation_id is None else running.input[row.num_read :]
        self._chains.hold_again(kept)
        self._chains.let_go(running.items)
        self._release_parent(running)
        running.items, running.num_input, running.is_hold = kept, len(kept), True
        items = tuple(item.row for item in kept)
        hold = row._replace(
            parent=None, num_input=len(kept), items=items, num_read=0, is_hold=1, body=""
        )
        self._shelf.put(RUNNING, hold)

    def end(self, key: Key) -> None:
        """Forget one, if there is one of that key."""
        running = self._running.pop(key, None)
        if running is not None:
            self._shelf.drop(RUNNING, running.row)
            self._release_parent(running)
            self._chains.let_go(running.items)

    def read(self, running: Running) -> RunningRow:
        return self._shelf.get(RUNNING, running.row)

    def to_record(self, running: Running) -> ResponseRecord:
        """A record without its input."""
        row = self.read(running)
        return ResponseRecord(
            response_id=row.response_id,
            owner=row.owner,
            status="in_progress",
            created_at=row.created_at,
            body=row.body,
            parent_id=None if running.parent is None else running.parent.key[1],
            conversation=to_link(row),
            output=self._chains.read(running.items[running.num_input :]),
        )

    def _put(
        self, record: ResponseRecord, parent: Node | None, now_s: float, *, is_hold: bool
    ) -> None:
        items = self._chains.hold(record.owner, record.input + record.output)
        link = record.conversation
        row = RunningRow(
            row=self._shelf.next_number(),
            parent=None if parent is None else parent.row,
            owner=record.owner,
            response_id=record.response_id,
            num_input=len(record.input),
            items=to_rows(items),
            created_at=record.created_at,
            conversation_id=None if link is None else link.conversation_id,
            serial=None if link is None else link.serial,
            num_read=0 if link is None else link.num_read,
            begun_s=now_s,
            is_hold=int(is_hold),
            body=record.body,
        )
        self._shelf.put(RUNNING, row)
        key = (record.owner, record.response_id)
        self._insert(Running(row.row, key, parent, row.num_input, items, is_hold))

    def _insert(self, running: Running) -> None:
        self._running[running.key] = running
        self._chains.need(running.parent)
        if running.parent is not None:
            self.chain_bytes += running.parent.chain_bytes

    def _release_parent(self, running: Running) -> None:
        if running.parent is not None:
            self.chain_bytes -= running.parent.chain_bytes
        self._chains.release(running.parent)
        running.parent = None


def to_rows(items: Iterable[Item]) -> tuple[int, ...]:
    return tuple(item.row for item in items)


def to_link(row: RunningRow | EntryRow) -> ConversationLink | None:
    if row.conversation_id is None:
        return None
    return ConversationLink(row.conversation_id, row.serial, row.num_read)
