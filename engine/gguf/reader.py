"""A GGUF file: typed metadata and tensors. Every fault is a ModelLoadError naming the file."""

from pathlib import Path
from typing import TypeVar

import gguf
import numpy as np
import numpy.typing as npt

from engine.errors import ModelLoadError

FloatArray = npt.NDArray[np.float32]
Scalar = TypeVar("Scalar", bool, int, float, str)

# What gguf.GGUFReader raises on bytes that are no GGUF, or not the whole of one: it indexes,
# reshapes and converts to enums without checking lengths first.
READ_ERRORS = (ValueError, LookupError, TypeError, ArithmeticError, RecursionError)


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
                magic = file.read(4)
            if magic != b"GGUF":
                raise self.error("it is not a GGUF file")
            # Offsets are numpy integers, which would wrap around and point at other data.
            with np.errstate(over="raise"):
                reader = gguf.GGUFReader(path)
        except OSError as error:
            raise self.error(error.strerror or str(error)) from error
        except READ_ERRORS as error:
            raise self.error(f"it may be damaged or cut short ({error})") from error
        self._fields = reader.fields
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
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

    def find(self, key: str, kind: type[Scalar]) -> Scalar | None:
        """Read a value, or None where the file does not have it."""
        value = self._contents(key)
        if value is None or type(value) is kind:
            return value
        raise self.error(f"its metadata {key} is not of type {kind.__name__}")

    def need(self, key: str, kind: type[Scalar]) -> Scalar:
        """Read a value that the model cannot do without."""
        value = self.find(key, kind)
        if value is None:
            raise self.error(f"its metadata lacks {key}")
        return value

    def need_list(self, key: str, kind: type[Scalar]) -> list[Scalar]:
        """Read an array that the model cannot do without."""
        values = self._contents(key)
        if values is None:
            raise self.error(f"its metadata lacks {key}")
        if isinstance(values, list) and all(type(value) is kind for value in values):
            return values
        raise self.error(f"its metadata {key} is not a list of type {kind.__name__}")

    def _contents(self, key: str) -> object:
        field = self._fields.get(key)
        if field is None:
            return None
        try:
            contents: object = field.contents()
        except READ_ERRORS as error:
            raise self.error(f"its metadata {key} cannot be read ({error})") from error
        return contents

    @property
    def tensor_names(self) -> frozenset[str]:
        """The names of all tensors, as GGUF spells them."""
        return frozenset(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """Dimensions of a tensor, the outermost first; GGUF itself lists the innermost first."""
        return tuple(reversed(self._tensors[name].shape.tolist()))

    def read(self, name: str) -> FloatArray:
        """Dequantize one tensor.

        Raises:
            ModelLoadError: the tensor is of a type that the gguf package cannot dequantize.
        """
        tensor = self._tensors[name]
        try:
            # A damaged scale overflows here; the writer of weights refuses what comes out.
            with np.errstate(all="ignore"):
                values = gguf.dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError as error:
            kind = tensor.tensor_type.name
            raise self.error(f"its tensor {name} is of type {kind}, which is unknown") from error
        return values.reshape(self.shape(name))
