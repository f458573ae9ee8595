"""The tensors of a GGUF file written as one model.safetensors, one tensor in memory at a time."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import gguf
import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from engine.gguf.architecture import (
    OUTPUT,
    Architecture,
    ModelShape,
    TensorRule,
    is_tied,
)
from engine.gguf.reader import FloatArray, GgufFile
from engine.precision import DType

# The safetensors format's names of number types, their bytes, and the largest number each holds.
NAMES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
LIMITS = {"float32": 3.4028235e38, "float16": 65504.0, "bfloat16": 3.3895314e38}


@dataclass(frozen=True, slots=True)
class PlannedTensor:
    """One tensor to write: where it comes from, what it is called, and its shape."""

    source: str
    target: str
    shape: tuple[int, ...]
    rule: TensorRule


def plan_tensors(
    file: GgufFile, architecture: Architecture, shape: ModelShape
) -> list[PlannedTensor]:
    """List the tensors to write, after checking that the file has exactly these.

    Raises:
        ModelLoadError: a tensor is missing, unknown or of a wrong shape.
    """
    rules = {name: (rule, rule.target) for name, rule in architecture.model_tensors.items()}
    if is_tied(file):
        del rules[OUTPUT]
    for layer in range(shape.num_layers):
        for name, rule in architecture.layer_tensors.items():
            rules[name.format(layer=layer)] = (rule, rule.target.format(layer=layer))
    missing = rules.keys() - file.tensor_names
    if missing:
        raise file.error(f"it lacks {len(missing)} tensors, such as {min(missing)}")
    unknown = file.tensor_names - rules.keys() - architecture.config_tensors
    if unknown:
        raise file.error(f"it has {len(unknown)} unknown tensors, such as {min(unknown)}")
    planned = [
        PlannedTensor(name, target, rule.expected_shape(shape), rule)
        for name, (rule, target) in rules.items()
    ]
    for tensor in planned:
        found = file.shape(tensor.source)
        if found != tensor.shape:
            wanted = f"{list(tensor.shape)} by its metadata"
            raise file.error(f"its tensor {tensor.source} has shape {list(found)}, not {wanted}")
    return planned


def write_safetensors(
    file: GgufFile,
    tensors: list[PlannedTensor],
    shape: ModelShape,
    target: Path,
    *,
    dtype: DType,
    show_progress: bool,
) -> None:
    """Dequantize the tensors one after the other into a file in the safetensors format.

    safetensors' own writer wants all tensors in memory at once; the format is a length, a JSON
    header with every tensor's place, and the bytes, so it is written here as it comes.

    Raises:
        ModelLoadError: a tensor has an unknown type, or a number that `dtype` cannot hold.
        OSError: the disk is full or cannot be written.
    """
    num_bytes = sum(math.prod(tensor.shape) for tensor in tensors) * ITEM_BYTES[dtype]
    with (
        target.open("wb") as out,
        tqdm(
            total=num_bytes,
            desc=f"Converting {file.path.name}",
            unit="B",
            unit_scale=True,
            disable=not show_progress,
        ) as progress,
    ):
        write_header(out, tensors, dtype)
        for tensor in tensors:
            values = file.read(tensor.source)
            if tensor.rule.transform is not None:
                values = tensor.rule.transform(values, shape)
            progress.update(out.write(encode(file, tensor.source, values, dtype).data))


def write_header(out: BinaryIO, tensors: list[PlannedTensor], dtype: DType) -> None:
    """Write the header: its length in 8 bytes, then JSON padded to a multiple of 8 bytes."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for tensor in tensors:
        start, end = end, end + math.prod(tensor.shape) * ITEM_BYTES[dtype]
        header[tensor.target] = {
            "dtype": NAMES[dtype],
            "shape": tensor.shape,
            "data_offsets": (start, end),
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    out.write(len(text).to_bytes(8, "little") + text)


def encode(
    file: GgufFile, name: str, values: FloatArray, dtype: DType
) -> npt.NDArray[np.float32] | npt.NDArray[np.float16] | npt.NDArray[np.uint8]:
    """Convert a tensor to the asked number type; bfloat16, which numpy lacks, comes as bytes.

    Raises:
        ModelLoadError: a number is not finite, or not in the type's range.
    """
    largest = max(values.max(), -values.min())  # NaN passes through both and fails the comparison
    if not largest <= LIMITS[dtype]:
        raise file.error(f"its tensor {name} holds numbers that are not finite in {dtype}")
    values = np.ascontiguousarray(values)
    match dtype:
        case "float32":
            return values
        case "float16":
            return values.astype(np.float16)
        case "bfloat16":
            return gguf.quantize(values, gguf.GGMLQuantizationType.BF16)
