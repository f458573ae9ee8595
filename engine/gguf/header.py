"""The head of a GGUF file: its metadata, and where its tensors are. Nothing in it is trusted.

The layout is that of GGUF's specification (docs/gguf.md of ggml). The gguf package reads it too,
but believes every count: a flipped bit there costs gigabytes, and an honest file of 262,144 tokens
nine seconds.
"""

import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, GGUFValueType

MAGIC = b"GGUF"
VERSIONS = (2, 3)
# A vocabulary of 256k tokens and its merges take ten megabytes; the longest tables of tensors, of
# models whose experts are split, tens of thousands of names.
MAX_HEADER_BYTES = 1 << 26
MAX_ENTRIES = 1 << 17
MAX_NAME_BYTES = (1 << 16) - 1
MAX_DIMENSIONS = 4

NUMBERS: Mapping[int, type[np.generic]] = {
    GGUFValueType.UINT8: np.uint8,
    GGUFValueType.INT8: np.int8,
    GGUFValueType.UINT16: np.uint16,
    GGUFValueType.INT16: np.int16,
    GGUFValueType.UINT32: np.uint32,
    GGUFValueType.INT32: np.int32,
    GGUFValueType.FLOAT32: np.float32,
    GGUFValueType.UINT64: np.uint64,
    GGUFValueType.INT64: np.int64,
    GGUFValueType.FLOAT64: np.float64,
    GGUFValueType.BOOL: np.bool_,
}

# One value of the metadata. Text stays as bytes: what nobody reads need not be UTF-8.
Value = bool | int | float | bytes | list[bytes] | npt.NDArray[Any]


class HeaderError(Exception):
    """What is wrong with the bytes of a head."""


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Where a tensor's bytes are in the file; the outermost dimension of `shape` comes first."""

    kind: GGMLQuantizationType
    shape: tuple[int, ...]
    start: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Header:
    """The metadata by key and the tensors by name."""

    metadata: dict[str, Value]
    tensors: dict[str, TensorPlace]


class Cursor:
    """Reads one value after the other, and never beyond the end."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._end = min(len(data), MAX_HEADER_BYTES)
        self.place = 0

    def take(self, num_bytes: int) -> int:
        """Move on, and return where the bytes passed over begin."""
        start = self.place
        if num_bytes > self._end - start:
            if self._end == len(self._data):
                raise HeaderError("it ends within its head")
            raise HeaderError(f"its head is longer than {MAX_HEADER_BYTES} bytes")
        self.place += num_bytes
        return start

    def read_uint32(self) -> int:
        [number] = struct.unpack_from("<I", self._data, self.take(4))
        return int(number)

    def read_uint64(self) -> int:
        [number] = struct.unpack_from("<Q", self._data, self.take(8))
        return int(number)

    def read_bytes(self) -> bytes:
        """A length in 8 bytes and that many bytes."""
        length = self.read_uint64()
        start = self.take(length)
        return self._data[start : start + length]

    def read_numbers(self, kind: type[np.generic], count: int) -> npt.NDArray[Any]:
        """Little-endian numbers, one after the other."""
        dtype = np.dtype(kind).newbyteorder("<")
        start = self.take(count * dtype.itemsize)
        return np.frombuffer(self._data[start : self.place], dtype)


def parse_header(data: mmap.mmap) -> Header:
    """Read the head of a GGUF file.

    Raises:
        HeaderError: the bytes are no GGUF file, end early, or contradict themselves.
    """
    cursor = Cursor(data)
    start = cursor.take(len(MAGIC))
    if data[start : cursor.place] != MAGIC:
        raise HeaderError("it is not a GGUF file")
    version = cursor.read_uint32()
    if version not in VERSIONS:
        raise HeaderError(f"its version {version} is not one of {VERSIONS}")
    num_tensors, num_keys = cursor.read_uint64(), cursor.read_uint64()
    if max(num_tensors, num_keys) > MAX_ENTRIES:
        raise HeaderError(f"it claims to have {num_tensors} tensors and {num_keys} keys")
    metadata: dict[str, Value] = {}
    for _ in range(num_keys):
        key = read_name(cursor)
        if key in metadata:
            raise HeaderError(f"it has the key {key} twice")
        metadata[key] = read_value(cursor, key)
    return Header(metadata, read_tensor_table(cursor, num_tensors, metadata, len(data)))


def read_name(cursor: Cursor) -> str:
    """Read a key or the name of a tensor.

    Raises:
        HeaderError: it is too long or not UTF-8.
    """
    name = cursor.read_bytes()
    if len(name) > MAX_NAME_BYTES:
        raise HeaderError(f"it has a name of {len(name)} bytes")
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise HeaderError(f"its name {name!r} is not UTF-8") from error


def read_value(cursor: Cursor, key: str) -> Value:
    """Read a value behind its type.

    Raises:
        HeaderError: the type is unknown, or an array is of arrays.
    """
    kind = cursor.read_uint32()
    if kind == GGUFValueType.STRING:
        return cursor.read_bytes()
    if kind == GGUFValueType.ARRAY:
        kind, count = cursor.read_uint32(), cursor.read_uint64()
        if kind == GGUFValueType.STRING:
            return [cursor.read_bytes() for _ in range(count)]
        return cursor.read_numbers(find_number_type(kind, key), count)
    number: bool | int | float = cursor.read_numbers(find_number_type(kind, key), 1).tolist()[0]
    return number


def find_number_type(kind: int, key: str) -> type[np.generic]:
    """The type of a number by its code.

    Raises:
        HeaderError: there is no such type.
    """
    number_type = NUMBERS.get(kind)
    if number_type is None:
        raise HeaderError(f"its metadata {key} is of type {kind}, which is unknown")
    return number_type


def read_tensor_table(
    cursor: Cursor, num_tensors: int, metadata: dict[str, Value], file_bytes: int
) -> dict[str, TensorPlace]:
    """Read where the tensors are: their offsets count from the end of the table, aligned.

    Raises:
        HeaderError: a tensor is there twice, is not wholly in the file, or shares bytes with
            another, by which a small file could fill a disk.
    """
    tensors: dict[str, TensorPlace] = {}
    for _ in range(num_tensors):
        name = read_name(cursor)
        if name in tensors:
            raise HeaderError(f"it has the tensor {name} twice")
        tensors[name] = read_tensor(cursor, name)
    alignment = metadata.get(gguf.Keys.General.ALIGNMENT, gguf.GGUF_DEFAULT_ALIGNMENT)
    if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
        raise HeaderError(f"its alignment {alignment!r} is not a power of two")
    base = -(-cursor.place // alignment) * alignment
    end, last = 0, ""
    for name, place in sorted(tensors.items(), key=lambda item: item[1].start):
        if place.start % alignment:
            raise HeaderError(f"its tensor {name} is not aligned to {alignment} bytes")
        if place.start < end:
            raise HeaderError(f"its tensors {last} and {name} overlap")
        end, last = place.start + place.num_bytes, name
        if base + end > file_bytes:
            raise HeaderError(f"it ends within its tensor {name}")
    return {
        name: TensorPlace(place.kind, place.shape, base + place.start, place.num_bytes)
        for name, place in tensors.items()
    }


def read_tensor(cursor: Cursor, name: str) -> TensorPlace:
    """Read one line of the table; its `start` counts from the table's end.

    Raises:
        HeaderError: the dimensions or the type are impossible, or do not fit each other.
    """
    num_dimensions = cursor.read_uint32()
    if not 1 <= num_dimensions <= MAX_DIMENSIONS:
        raise HeaderError(f"its tensor {name} has {num_dimensions} dimensions")
    shape = tuple(cursor.read_uint64() for _ in range(num_dimensions))[::-1]
    code = cursor.read_uint32()
    try:
        kind = GGMLQuantizationType(code)
        block_items, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    except (ValueError, KeyError) as error:
        raise HeaderError(f"its tensor {name} is of type {code}, which is unknown") from error
    if min(shape) < 1 or shape[-1] % block_items:
        raise HeaderError(f"its tensor {name} of type {kind.name} cannot have shape {list(shape)}")
    num_bytes = math.prod(shape) // block_items * block_bytes
    return TensorPlace(kind, shape, cursor.read_uint64(), num_bytes)
