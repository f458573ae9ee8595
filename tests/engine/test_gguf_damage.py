"""Bytes that are no GGUF file, or not the whole of one, are refused and never believed."""

import os
import random
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import ModelLoadError
from engine.gguf.convert import MODEL_FILES
from tests.engine.gguf_fixtures import FAMILIES, left_in, make_weights, resolve, write_gguf


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is not a GGUF file"),
        (b"GG", "it is not a GGUF file"),
        (b"version of a pointer to large files", "it is not a GGUF file"),
        (b"GGUF", "it may be damaged or cut short"),
    ],
)
def test_bytes_that_are_no_gguf_are_refused(
    tmp_path: Path, cache_dir: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelLoadError, match=rf"other\.gguf: {reason}"):
        resolve(path, cache_dir)
    assert left_in(cache_dir) == []


def test_a_tensor_type_that_does_not_exist_is_refused(tiny_gguf: Path, cache_dir: Path) -> None:
    content = bytearray(tiny_gguf.read_bytes())
    name = b"output_norm.weight"
    # The name is followed by the number of dimensions, the one dimension, and the type.
    place = content.index(name) + len(name) + 4 + 8
    assert content[place : place + 4] == bytes(4)
    content[place] = 99
    tiny_gguf.write_bytes(content)
    with pytest.raises(ModelLoadError, match=r"tiny\.gguf: .* is of type 99, which is unknown"):
        resolve(tiny_gguf, cache_dir)
    assert left_in(cache_dir) == []


def test_what_is_no_file_is_refused(tmp_path: Path, cache_dir: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"missing\.gguf: No such file"):
        resolve(tmp_path / "missing.gguf", cache_dir)
    (tmp_path / "folder.gguf").mkdir()
    with pytest.raises(ModelLoadError, match=r"folder\.gguf: Is a directory"):
        resolve(tmp_path / "folder.gguf", cache_dir)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(fraction=st.floats(0, 1, exclude_max=True))
def test_a_file_cut_anywhere_is_refused(tiny_gguf: Path, cache_dir: Path, fraction: float) -> None:
    content = tiny_gguf.read_bytes()
    cut = tiny_gguf.with_name("cut.gguf")
    # Most cuts fall into the head, where the parser's many ways to fail are.
    cut.write_bytes(content[: int(len(content) * fraction**4)])
    with pytest.raises(ModelLoadError, match=r"cut\.gguf"):
        resolve(cut, cache_dir)
    assert left_in(cache_dir) == []


@pytest.mark.parametrize("family", FAMILIES)
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_file_with_flipped_bytes_is_converted_whole_or_refused(
    tmp_path: Path, cache_dir: Path, family: str, seed: int
) -> None:
    tiny_gguf = tmp_path / "tiny.gguf"
    if not tiny_gguf.exists():
        write_gguf(tiny_gguf, family=family)
    content = bytearray(tiny_gguf.read_bytes())
    generator = random.Random(seed)
    head = len(content) - sum(values.nbytes for values in make_weights(family).values())
    for _ in range(generator.randint(1, 3)):
        content[generator.randrange(head)] ^= 1 << generator.randrange(8)
    flipped = tiny_gguf.with_name("flipped.gguf")
    flipped.write_bytes(content)
    with most_memory(LITTLE_MEMORY):
        try:
            folder = resolve(flipped, cache_dir)
        except ModelLoadError:
            pass
        else:
            assert {path.name for path in folder.iterdir()} == set(MODEL_FILES)
    assert [name for name in left_in(cache_dir) if "partial" in name] == []


LITTLE_MEMORY = 50_000_000


@contextmanager
def most_memory(num_bytes: int) -> Iterator[None]:
    """Fail where Python and numpy together hold more at any time."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < num_bytes


# Heads that no writer would write


def text(content: bytes) -> bytes:
    return struct.pack("<Q", len(content)) + content


def key(name: bytes, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def array(name: bytes, kind: int, count: int, values: bytes = b"") -> bytes:
    return key(name, 9, struct.pack("<IQ", kind, count) + values)


def tensor(name: bytes, dimensions: list[int], kind: int = 0, offset: int = 0) -> bytes:
    shape = struct.pack(f"<I{len(dimensions)}Q", len(dimensions), *dimensions)
    return text(name) + shape + struct.pack("<IQ", kind, offset)


def head(
    keys: list[bytes], tensors: list[bytes], counts: tuple[int, int] | None = None, version: int = 3
) -> bytes:
    """A whole file of 64 bytes of tensors; `counts`, of tensors and keys, may lie."""
    num_tensors, num_keys = counts or (len(tensors), len(keys))
    start = b"GGUF" + struct.pack("<IQQ", version, num_tensors, num_keys)
    content = start + b"".join(keys) + b"".join(tensors)
    return content + bytes(-len(content) % 32 + 64)


LARGE = 1 << 60


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (head([], [], version=1), "its version 1 is not one of"),
        (head([], [], version=3 << 24), "its version 50331648 is not one of"),
        (head([], [], (LARGE, 0)), "it claims to have"),
        (head([], [], (0, LARGE)), "it claims to have"),
        (head([], [], (0, 100_000)), "twice"),
        (head([struct.pack("<Q", LARGE)], []), "ends within its head"),
        (head([key(b"k" * 70_000, 4, bytes(4))], []), "it has a name of 70000 bytes"),
        (head([key(b"\xff", 4, bytes(4))], []), "its name b'\\xff' is not UTF-8"),
        (head([key(b"k", 4, bytes(4))] * 2, []), "the key k twice"),
        (head([key(b"k", 8, struct.pack("<Q", LARGE))], []), "ends within its head"),
        (head([key(b"k", 99, b"")], []), "k is of type 99, which is unknown"),
        (head([array(b"k", 0, LARGE)], []), "ends within its head"),
        (head([array(b"k", 8, LARGE)], []), "ends within its head"),
        (head([array(b"k", 9, 1, array(b"", 9, 1))], []), "k is of type 9, which is unknown"),
        (head([array(b"k", 99, 0)], []), "k is of type 99, which is unknown"),
        (head([], [tensor(b"t", [8])] * 2), "the tensor t twice"),
        (head([], [tensor(b"t", [])]), "t has 0 dimensions"),
        (head([], [tensor(b"t", [1] * 5)]), "t has 5 dimensions"),
        (head([], [tensor(b"t", [0])]), "cannot have shape [0]"),
        (head([], [tensor(b"t", [33], kind=8)]), "t of type Q8_0 cannot have shape [33]"),
        (head([], [tensor(b"t", [1 << 32, 1 << 32])]), "ends within its tensor t"),
        (head([], [tensor(b"t", [17])]), "ends within its tensor t"),
        (head([], [tensor(b"t", [8], offset=64)]), "ends within its tensor t"),
        (head([], [tensor(b"t", [8], offset=(1 << 64) - 32)]), "ends within its tensor t"),
        (head([], [tensor(b"t", [8], offset=4)]), "t is not aligned to 32 bytes"),
        (head([], [tensor(b"t", [16]), tensor(b"u", [8], offset=32)]), "tensors t and u overlap"),
        (head([key(b"general.alignment", 4, bytes(4))], []), "alignment 0 is not a power of two"),
        (head([key(b"general.alignment", 4, b"\3\0\0\0")], []), "3 is not a power of two"),
        (head([key(b"general.alignment", 7, b"\1")], []), "True is not a power of two"),
        (head([key(b"general.alignment", 8, text(b"32"))], []), "is not a power of two"),
        (head([key(b"general.architecture", 8, text(b"\xff"))], []), "cannot be read"),
        (head([], []), "lacks general.architecture"),
    ],
)
def test_a_head_that_lies_is_refused_without_being_believed(
    tmp_path: Path, cache_dir: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "lies.gguf"
    path.write_bytes(content)
    with most_memory(LITTLE_MEMORY), pytest.raises(ModelLoadError) as caught:
        resolve(path, cache_dir)
    assert str(path) in caught.value.message
    assert reason in caught.value.message
    assert left_in(cache_dir) == []


def test_a_head_as_long_as_a_model_is_refused(tmp_path: Path, cache_dir: Path) -> None:
    path = tmp_path / "long.gguf"
    path.write_bytes(head([array(b"k", 0, 1 << 30)], []))
    os.truncate(path, 1 << 31)
    with most_memory(LITTLE_MEMORY), pytest.raises(ModelLoadError, match="its head is longer than"):
        resolve(path, cache_dir)


def test_an_array_is_judged_by_its_length_before_it_is_read(
    tmp_path: Path, cache_dir: Path
) -> None:
    scores = [0.0] * 1_000_000
    path = write_gguf(
        tmp_path / "long.gguf", family="gemma3", metadata={"tokenizer.ggml.scores": scores}
    )
    with (
        most_memory(LITTLE_MEMORY),
        pytest.raises(ModelLoadError, match="scores has 1000000 values"),
    ):
        resolve(path, cache_dir)
