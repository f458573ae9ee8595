"""Tensors of every type are read as ggml's description of its blocks says, value by value.

The layouts here follow the comments and loops of ggml's own reference (ggml-quants), one value at
a time and in double precision; the converter uses the gguf package, which works on whole arrays.
"""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from safetensors.numpy import load_file

from engine.errors import ModelLoadError
from tests.engine.gguf_fixtures import HIDDEN, INNER, Array, left_in, resolve, write_gguf

SOURCE, TARGET = "blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj.weight"
ROWS = HIDDEN


def half(block: bytes, place: int) -> float:
    """The 16-bit float at a place."""
    return float(np.frombuffer(block, "<f2", 1, place)[0])


def nibble(block: bytes, place: int, high: bool) -> int:
    """Four bits of a byte."""
    return block[place] >> 4 if high else block[place] & 15


def read_f32(block: bytes, item: int) -> float:
    return float(np.frombuffer(block, "<f4")[item])


def read_f16(block: bytes, item: int) -> float:
    return half(block, 0)


def read_bf16(block: bytes, item: int) -> float:
    return float(np.frombuffer(bytes(2) + block, "<f4")[0])


def read_q4_0(block: bytes, item: int) -> float:
    return half(block, 0) * (nibble(block, 2 + item % 16, item >= 16) - 8)


def read_q4_1(block: bytes, item: int) -> float:
    return half(block, 0) * nibble(block, 4 + item % 16, item >= 16) + half(block, 2)


def read_q5_0(block: bytes, item: int) -> float:
    fifth = int.from_bytes(block[2:6], "little") >> item & 1
    return half(block, 0) * (nibble(block, 6 + item % 16, item >= 16) + 16 * fifth - 16)


def read_q5_1(block: bytes, item: int) -> float:
    fifth = int.from_bytes(block[4:8], "little") >> item & 1
    return half(block, 0) * (nibble(block, 8 + item % 16, item >= 16) + 16 * fifth) + half(block, 2)


def read_q8_0(block: bytes, item: int) -> float:
    return half(block, 0) * int(np.int8(np.uint8(block[2 + item])))


def read_q2_k(block: bytes, item: int) -> float:
    """16 scales and minima of 4 bits, 256 items of 2 bits, then the scale and minimum of all."""
    part, place = item // 32 % 4, item // 128 * 32 + item % 32
    scale = block[item // 16]
    two_bits = block[16 + place] >> 2 * part & 3
    return half(block, 80) * (scale & 15) * two_bits - half(block, 82) * (scale >> 4)


def read_q3_k(block: bytes, item: int) -> float:
    """256 high bits (one missing takes 4 away), as many times 2 low bits, scales of 6 bits."""
    place, group = item // 128 * 32 + item % 32, item // 16
    high = block[item % 32] >> item // 32 & 1
    number = (block[32 + place] >> 2 * (item // 32 % 4) & 3) - 4 * (1 - high)
    low = nibble(block, 96 + group % 8, group >= 8)
    scale = low + 16 * (block[104 + group % 4] >> 2 * (group // 4) & 3) - 32
    return half(block, 108) * scale * number


def six_bit_scales(block: bytes, group: int) -> tuple[int, int]:
    """The scale and minimum of one of 8 groups, packed into the 12 bytes from the fifth on."""
    packed = block[4:16]
    if group < 4:
        return packed[group] & 63, packed[group + 4] & 63
    scale = packed[group + 4] & 15 | packed[group - 4] >> 6 << 4
    return scale, packed[group + 4] >> 4 | packed[group] >> 6 << 4


def read_q4_k(block: bytes, item: int) -> float:
    group = item // 32
    scale, minimum = six_bit_scales(block, group)
    number = nibble(block, 16 + group // 2 * 32 + item % 32, group % 2 == 1)
    return half(block, 0) * scale * number - half(block, 2) * minimum


def read_q5_k(block: bytes, item: int) -> float:
    group = item // 32
    scale, minimum = six_bit_scales(block, group)
    number = nibble(block, 48 + group // 2 * 32 + item % 32, group % 2 == 1)
    number += 16 * (block[16 + item % 32] >> group & 1)
    return half(block, 0) * scale * number - half(block, 2) * minimum


def read_q6_k(block: bytes, item: int) -> float:
    """256 times 4 low bits and 2 high ones, then 16 signed scales."""
    part, pair = item // 32 % 4, item // 128
    low = nibble(block, pair * 64 + part % 2 * 32 + item % 32, part >= 2)
    high = block[128 + pair * 32 + item % 32] >> 2 * part & 3
    scale = int(np.int8(np.uint8(block[192 + item // 16])))
    return half(block, 208) * scale * (low + 16 * high - 32)


# How one item of a block is read, and where the block's 16-bit floats stand.
LAYOUTS: dict[Kind, tuple[Callable[[bytes, int], float], tuple[int, ...]]] = {
    Kind.F32: (read_f32, ()),
    Kind.F16: (read_f16, (0,)),
    Kind.BF16: (read_bf16, ()),
    Kind.Q4_0: (read_q4_0, (0,)),
    Kind.Q4_1: (read_q4_1, (0, 2)),
    Kind.Q5_0: (read_q5_0, (0,)),
    Kind.Q5_1: (read_q5_1, (0, 2)),
    Kind.Q8_0: (read_q8_0, (0,)),
    Kind.Q2_K: (read_q2_k, (80, 82)),
    Kind.Q3_K: (read_q3_k, (108,)),
    Kind.Q4_K: (read_q4_k, (0, 2)),
    Kind.Q5_K: (read_q5_k, (0, 2)),
    Kind.Q6_K: (read_q6_k, (208,)),
}


def draw_blocks(kind: Kind) -> Array:
    """Random bytes of a matrix of (ROWS, INNER) items, with finite floats where floats stand."""
    generator = np.random.default_rng(kind.value)
    items, size = gguf.GGML_QUANT_SIZES[kind]
    # Where the floats of a type are not known here, no two bytes may be an infinite one.
    end = 256 if kind in LAYOUTS else 0x78
    blocks = generator.integers(0, end, (ROWS, INNER // items, size), dtype=np.uint8)
    if kind in (Kind.F32, Kind.BF16):
        floats = generator.standard_normal((ROWS, INNER, 1)).astype("<f4")
        blocks = floats.view(np.uint8)[..., 4 - size :]
    for place in LAYOUTS[kind][1] if kind in LAYOUTS else ():
        floats = generator.standard_normal((ROWS, INNER // items, 1)).astype("<f2")
        blocks[..., place : place + 2] = floats.view(np.uint8)
    return np.ascontiguousarray(blocks.reshape(ROWS, -1))


def write_matrix(path: Path, kind: Kind) -> Path:
    return write_gguf(path, tensors={SOURCE: draw_blocks(kind)}, quantized={SOURCE: kind})


@pytest.mark.parametrize("kind", LAYOUTS, ids=lambda kind: kind.name)
def test_every_value_of_a_type_is_read_as_its_layout_says(tmp_path: Path, kind: Kind) -> None:
    read_item = LAYOUTS[kind][0]
    items, size = gguf.GGML_QUANT_SIZES[kind]
    content = draw_blocks(kind).tobytes()
    expected = [
        read_item(content[start : start + size], item)
        for start in range(0, len(content), size)
        for item in range(items)
    ]
    folder = resolve(write_matrix(tmp_path / "m.gguf", kind), tmp_path / "cache")
    found = load_file(folder / "model.safetensors")[TARGET]
    np.testing.assert_allclose(found.ravel(), expected, rtol=1e-5, atol=1e-5)


OTHERS = sorted(set(Kind) - set(LAYOUTS))


@pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: kind.name)
def test_any_other_type_is_read_by_the_gguf_package_or_refused(tmp_path: Path, kind: Kind) -> None:
    path, cache_dir = write_matrix(tmp_path / "m.gguf", kind), tmp_path / "cache"
    try:
        expected = gguf.dequantize(draw_blocks(kind), kind)
    except NotImplementedError:
        with pytest.raises(ModelLoadError, match=f"{SOURCE} is of type {kind.name}, which is not"):
            resolve(path, cache_dir)
        assert left_in(cache_dir) == []
    else:
        found = load_file(resolve(path, cache_dir) / "model.safetensors")[TARGET]
        np.testing.assert_array_equal(found, expected)
