"""Where the rows are: what a store asks of it, and the one in memory. It knows no rule."""

from typing import Any, Protocol, cast

from stores.rows import LifeRow, RowT, Table


class Shelf(Protocol):
    """Keeps rows by table and number."""

    def get(self, table: Table[RowT], row: int) -> RowT:
        """The row of that number, which is there."""
        ...

    def put(self, table: Table[RowT], row: RowT) -> None:
        """Keep a row, in place of the one of its number."""
        ...

    def drop(self, table: Table[Any], row: int) -> None:
        """Forget the row of that number, which is there."""
        ...

    def put_use(self, life: LifeRow) -> None:
        """Keep a row of `LIVES` that tells of a use alone: a crash may lose it."""
        ...

    def next_number(self) -> int:
        """A number larger than all before; no row has had it, no use either."""
        ...


class MemoryShelf:
    """A `Shelf` of dicts."""

    def __init__(self, first_number: int) -> None:
        self._number = first_number
        self._tables: dict[str, dict[int, tuple[object, ...]]] = {}

    def get(self, table: Table[RowT], row: int) -> RowT:
        return cast(RowT, self._tables[table.name][row])

    def put(self, table: Table[RowT], row: RowT) -> None:
        self._tables.setdefault(table.name, {})[cast(int, row[0])] = row

    def drop(self, table: Table[Any], row: int) -> None:
        del self._tables[table.name][row]

    def put_use(self, life: LifeRow) -> None:
        """Nothing: the order of uses is in the index, and ends with this shelf."""

    def next_number(self) -> int:
        self._number += 1
        return self._number
