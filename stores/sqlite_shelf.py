"""The shelf in a SQLite file: what a call puts and drops is written at its end, in one step."""

import sqlite3
from collections.abc import Iterator
from typing import Any, cast

from stores.rows import (
    CONVERSATION_ITEMS,
    CONVERSATIONS,
    ENTRIES,
    ITEMS,
    LIVES,
    NODES,
    RUNNING,
    LifeRow,
    RowT,
    Table,
)
from stores.schema import DamagedRowError, RowCodec

TABLES = (ITEMS, NODES, ENTRIES, RUNNING, CONVERSATIONS, CONVERSATION_ITEMS, LIVES)


class SqliteShelf:
    """A `Shelf`, and reads of whole tables. All methods raise `sqlite3.Error`.

    Uses alone are written with the next change, so that reading needs no writing.
    """

    def __init__(self, connection: sqlite3.Connection, first_number: int) -> None:
        self._connection = connection
        self._codecs: dict[str, RowCodec[Any]] = {it.name: RowCodec(it) for it in TABLES}
        # By table and number: the row as it shall be, None for none.
        self._changes: dict[tuple[str, int], tuple[object, ...] | None] = {}
        self._has_changes = False
        self._number = max(first_number, self._read_largest_number())

    def get(self, table: Table[RowT], row: int) -> RowT:
        if (table.name, row) in self._changes:
            return cast(RowT, self._changes[table.name, row])
        codec: RowCodec[RowT] = self._codecs[table.name]
        values = self._connection.execute(codec.select, (row,)).fetchone()
        if values is None:
            raise DamagedRowError("a row is not there")
        return codec.decode(values)

    def put(self, table: Table[RowT], row: RowT) -> None:
        self._changes[table.name, cast(int, row[0])] = row
        self._has_changes = True

    def drop(self, table: Table[Any], row: int) -> None:
        self._changes[table.name, row] = None
        self._has_changes = True

    def put_use(self, life: LifeRow) -> None:
        self._changes[LIVES.name, life.row] = life

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def scan(self, table: Table[RowT]) -> Iterator[tuple[RowT, int]]:
        """All rows by their numbers, without their bodies, and how many bytes the bodies have."""
        codec: RowCodec[RowT] = self._codecs[table.name]
        # All at once: a statement that is left half read would keep the connection from closing.
        return map(codec.decode_scanned, self._connection.execute(codec.scan).fetchall())

    def write(self, *, with_uses: bool = False) -> None:
        """Write what has changed, in one transaction; where it fails nothing is written.

        Uses alone are written if asked for.
        """
        if not self._has_changes and not (with_uses and self._changes):
            return
        self._connection.execute("BEGIN IMMEDIATE")
        for (name, number), row in self._changes.items():
            codec = self._codecs[name]
            if row is None:
                self._connection.execute(codec.delete, (number,))
            else:
                self._connection.execute(codec.insert, codec.encode(row))
        self._connection.execute("COMMIT")
        self._changes.clear()
        self._has_changes = False

    def roll_back(self) -> None:
        """End a transaction that has failed; what has changed is still to be written."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def forget_changes(self) -> None:
        self._changes.clear()
        self._has_changes = False

    def _read_largest_number(self) -> int:
        """The largest that any row or use has, or a conversation ever had."""
        queries = [f"SELECT max(row) FROM {table.name}" for table in TABLES]
        queries += ["SELECT max(used) FROM lives", "SELECT max(seq) FROM sqlite_sequence"]
        numbers = [self._connection.execute(query).fetchone()[0] for query in queries]
        return max(number or 0 for number in numbers)
