"""The tables of a store's file, version by version, and how values are spelt in them."""

import zlib
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from sys import byteorder
from typing import Any, Final, Generic, get_type_hints

from stores.rows import RowT, Table

# "Antp", in the header of each file.
APPLICATION_ID: Final = 0x416E7470

# What takes a file from version n to n + 1, from an empty one on. A released one never changes.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE items (
            row INTEGER PRIMARY KEY, owner BLOB NOT NULL, item_id BLOB NOT NULL,
            body BLOB NOT NULL
        )""",
        """CREATE TABLE nodes (
            row INTEGER PRIMARY KEY, parent INTEGER, owner BLOB NOT NULL,
            response_id BLOB NOT NULL, num_input INTEGER NOT NULL, items BLOB NOT NULL
        )""",
        """CREATE TABLE entries (
            row INTEGER PRIMARY KEY, status BLOB NOT NULL, created_at INTEGER NOT NULL,
            conversation_id BLOB, serial INTEGER, num_read INTEGER NOT NULL, body BLOB NOT NULL
        )""",
        """CREATE TABLE running (
            row INTEGER PRIMARY KEY, parent INTEGER, owner BLOB NOT NULL,
            response_id BLOB NOT NULL, num_input INTEGER NOT NULL, items BLOB NOT NULL,
            created_at INTEGER NOT NULL, conversation_id BLOB, serial INTEGER,
            num_read INTEGER NOT NULL, begun_s REAL NOT NULL, is_hold INTEGER NOT NULL,
            body BLOB NOT NULL
        )""",
        # AUTOINCREMENT remembers the largest serial ever, also of one that was deleted.
        """CREATE TABLE conversations (
            row INTEGER PRIMARY KEY AUTOINCREMENT, owner BLOB NOT NULL,
            conversation_id BLOB NOT NULL, created_at INTEGER NOT NULL, body BLOB NOT NULL
        )""",
        """CREATE TABLE conversation_items (
            row INTEGER PRIMARY KEY, conversation INTEGER NOT NULL, item_id BLOB NOT NULL,
            body BLOB NOT NULL
        )""",
        """CREATE TABLE lives (
            row INTEGER PRIMARY KEY, since_s REAL NOT NULL, used INTEGER NOT NULL
        )""",
    ),
)

# A body ends with its checksum, since SQLite has none of what it keeps.
CHECKSUM_BYTES: Final = 4


class DamagedRowError(Exception):
    """A row is not as it was written, or contradicts another."""


def encode_text(text: str) -> bytes:
    """A text as UTF-8; it may have lone surrogates, which JSON can spell."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise DamagedRowError("a text is not UTF-8") from None


def encode_body(text: str) -> bytes:
    data = encode_text(text)
    return data + zlib.crc32(data).to_bytes(CHECKSUM_BYTES, "big")


def decode_body(data: bytes) -> str:
    body, checksum = data[:-CHECKSUM_BYTES], data[-CHECKSUM_BYTES:]
    if zlib.crc32(body).to_bytes(CHECKSUM_BYTES, "big") != checksum:
        raise DamagedRowError("a body does not match its checksum")
    return decode_text(body)


def encode_numbers(numbers: tuple[int, ...]) -> bytes:
    """Numbers of eight bytes each, little-endian."""
    packed = array("q", numbers)
    if byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def decode_numbers(data: bytes) -> tuple[int, ...]:
    packed = array("q")
    try:
        packed.frombytes(data)
    except ValueError:
        raise DamagedRowError("a list of numbers is cut") from None
    if byteorder == "big":
        packed.byteswap()
    return tuple(packed)


@dataclass(frozen=True, slots=True)
class Kind:
    """How values of one Python type are kept: the type that SQLite has of them, and the ways."""

    stored_type: type | tuple[type, ...]
    encode: Callable[[Any], object]
    decode: Callable[[Any], object]


TEXT: Final = Kind(bytes, encode_text, decode_text)
BODY: Final = Kind(bytes, encode_body, decode_body)
NUMBERS: Final = Kind(bytes, encode_numbers, decode_numbers)
NUMBER: Final = Kind((int, float), lambda number: number, lambda number: number)

_KINDS: Final[dict[object, Kind]] = {
    str: TEXT,
    str | None: TEXT,
    int: NUMBER,
    int | None: NUMBER,
    float: NUMBER,
    tuple[int, ...]: NUMBERS,
}


class RowCodec(Generic[RowT]):
    """The SQL of one table, and its rows as SQLite has them."""

    def __init__(self, table: Table[RowT]) -> None:
        self._make: Callable[[Iterable[object]], RowT] = table.row_type._make  # type: ignore[attr-defined]
        hints = get_type_hints(table.row_type)
        names = list(hints)
        self._has_body = names[-1] == "body"
        self._kinds = [BODY if name == "body" else _KINDS[hints[name]] for name in names]
        columns, marks = ", ".join(names), ", ".join("?" * len(names))
        scanned = ", ".join([*names[:-1], "length(body)"] if self._has_body else names)
        self.insert = f"INSERT OR REPLACE INTO {table.name} ({columns}) VALUES ({marks})"
        self.delete = f"DELETE FROM {table.name} WHERE row = ?"
        self.select = f"SELECT {columns} FROM {table.name} WHERE row = ?"
        self.scan = f"SELECT {scanned} FROM {table.name} ORDER BY row"

    def encode(self, row: RowT) -> list[object]:
        values = zip(self._kinds, row, strict=True)
        return [None if value is None else kind.encode(value) for kind, value in values]

    def decode(self, values: tuple[object, ...]) -> RowT:
        return self._make(map(_decode, self._kinds, values))

    def decode_scanned(self, values: tuple[object, ...]) -> tuple[RowT, int]:
        """A row with an empty body, and how many bytes its body has, which was not read."""
        if not self._has_body:
            return self.decode(values), 0
        *others, length = values
        if not isinstance(length, int) or length < CHECKSUM_BYTES:
            raise DamagedRowError("a body has no checksum")
        return self._make([*map(_decode, self._kinds, others), ""]), length - CHECKSUM_BYTES


def _decode(kind: Kind, value: object) -> object:
    if value is None:
        return None
    if not isinstance(value, kind.stored_type):
        raise DamagedRowError("a value is of another type")
    return kind.decode(value)
