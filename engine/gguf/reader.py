"""A GGUF file: typed metadata and tensors. Every fault is a ModelLoadError naming the file."""

import math
import mmap
from pathlib import Path
from typing import TypeVar

import gguf
import numpy as np
import numpy.typing as npt

from engine.errors import ModelLoadError
from engine.gguf.header import MAGIC, HeaderError, parse_header

FloatArray = npt.NDArray[np.float32]
Scalar = TypeVar("Scalar", bool, int, float, str)


class GgufFile:
    """One open GGUF file; tensors stay on disk until they are read."""

    def __init__(self, path: Path) -> None:
        """Map the file and parse its metadata.

        Raises:
            ModelLoadError: the file cannot be opened, is no GGUF file, is damaged or cut short,
                or is one part of a model that was split.
        """
        self.path = path
        try:
            with path.open("rb") as file:
                if file.read(len(MAGIC)) != MAGIC:
                    raise self.error("it is not a GGUF file")
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            header = parse_header(self._data)
        except OSError as error:
            raise self.error(error.strerror or str(error)) from error
        except HeaderError as error:
            raise self.error(f"it may be damaged or cut short ({error})") from error
        self._metadata, self._tensors = header.metadata, header.tensors
        num_parts = self.find(gguf.Keys.Split.LLM_KV_SPLIT_COUNT, int) or 1
        if num_parts > 1:
            raise self.error(f"it is one of {num_parts} parts, which must be merged first")

    def error(self, reason: str) -> ModelLoadError:
        """Say what is wrong with this file."""
        return ModelLoadError(f"cannot use {self.path}: {reason}")

    @property
    def architecture(self) -> str:
        """The family of the model, such as `llama`; it is also the prefix of the model's keys."""
        return self.need(gguf.Keys.General.ARCHITECTURE, str)

    def model_key(self, key: str) -> str:
        """Fill the architecture into a key such as `{arch}.block_count`."""
        return key.format(arch=self.architecture)

    @property
    def keys(self) -> frozenset[str]:
        """The keys of all metadata."""
        return frozenset(self._metadata)

    def find(self, key: str, kind: type[Scalar]) -> Scalar | None:
        """Read a value, or None where the file does not have it."""
        value: object = self._metadata.get(key)
        if isinstance(value, bytes):
            value = self._decode(key, value)
        if value is None or type(value) is kind:
            return value
        raise self.error(f"its metadata {key} is not of type {kind.__name__}")

    def need(self, key: str, kind: type[Scalar]) -> Scalar:
        """Read a value that the model cannot do without."""
        value = self.find(key, kind)
        if value is None:
            raise self.error(f"its metadata lacks {key}")
        return value

    def find_positive(self, key: str) -> float | None:
        """Read a number that must be above zero and finite, or None where there is none."""
        value = self.find(key, float)
        if value is not None and not 0 < value < math.inf:
            raise self.error(f"its metadata {key} {value} is not a positive number")
        return value

    def need_positive(self, key: str) -> float:
        """Read a positive number that the model cannot do without."""
        value = self.find_positive(key)
        if value is None:
            raise self.error(f"its metadata lacks {key}")
        return value

    def need_list(self, key: str, kind: type[Scalar], length: int | None = None) -> list[Scalar]:
        """Read an array that the model cannot do without; `length` is how long it must be."""
        values: object = self._metadata.get(key)
        if values is None:
            raise self.error(f"its metadata lacks {key}")
        if isinstance(values, list | np.ndarray) and length not in (None, len(values)):
            raise self.error(f"its metadata {key} has {len(values)} values, not {length}")
        if isinstance(values, np.ndarray):
            values = values.tolist()
        elif isinstance(values, list):
            values = [self._decode(key, value) for value in values]
        if isinstance(values, list) and all(type(value) is kind for value in values):
            return values
        raise self.error(f"its metadata {key} is not a list of type {kind.__name__}")

    def _decode(self, key: str, text: bytes) -> str:
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            raise self.error(f"its metadata {key} cannot be read ({error})") from error

    @property
    def tensor_names(self) -> frozenset[str]:
        """The names of all tensors, as GGUF spells them."""
        return frozenset(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """Dimensions of a tensor, the outermost first; GGUF itself lists the innermost first."""
        return self._tensors[name].shape

    def read(self, name: str) -> FloatArray:
        """Dequantize one tensor.

        Raises:
            ModelLoadError: the tensor is of a type that the gguf package cannot dequantize.
        """
        place = self._tensors[name]
        blocks = np.frombuffer(self._data, np.uint8, place.num_bytes, place.start)
        try:
            # A damaged scale overflows here; the writer of weights refuses what comes out.
            with np.errstate(all="ignore"):
                values = gguf.dequantize(blocks.reshape(*place.shape[:-1], -1), place.kind)
        except NotImplementedError as error:
            kind = place.kind.name
            raise self.error(f"its tensor {name} is of type {kind}, which is not known") from error
        return values.reshape(place.shape)
