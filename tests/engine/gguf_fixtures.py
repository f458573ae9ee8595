"""Tiny models as llama.cpp would write them, and the parts of tests that run in other processes."""

import hashlib
import itertools
import json
import logging
import math
import os
import random
import resource
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any
from unittest.mock import patch

import gguf
import numpy as np
import numpy.typing as npt
from sentencepiece import SentencePieceProcessor
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]
from tokenizers import pre_tokenizers
from tqdm import tqdm
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from engine import sources
from engine.gguf import weights
from engine.gguf.cache import PARTIAL
from engine.gguf.convert import convert_gguf
from engine.precision import DType

Array = npt.NDArray[Any]

LAYERS, HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM = 2, 64, 256, 4, 2, 16
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
TOKENS = ["<end>", "<turn>", "</turn>", "<think>", *BYTES, "he", "ll", "hell", "hello", "11", "111"]
TYPES = [3, 3, 3, 4, *[1] * (len(TOKENS) - 4)]
MERGES = ["h e", "l l", "he ll", "hell o"]
BYTE_PAIRS: Mapping[str, Any] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": TYPES,
    "tokenizer.ggml.merges": MERGES,
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.padding_token_id": 0,
    "tokenizer.chat_template": "{{ messages[0].content }}",
}

# A vocabulary as SentencePiece makes one, with ways to one piece over different others.
CONTROL_PIECES = ["<pad>", "<eos>", "<bos>", "<unk>", "<turn>"]
USER_PIECES = ["\n", "\n\n", "\n\n\n", "  ", "   ", "    ", "<table>"]
MERGED_PIECES = [
    *["▁t", "in", "he", "▁a", "ll", "an", "▁th", "the", "▁the", "hel", "llo", "hello", "▁hello"],
    *[
        "aa",
        "aaa",
        "aaaa",
        "ana",
        "ban",
        "bana",
        "banana",
        "nan",
        "▁an",
        "▁in",
        "▁▁▁a",
        "日本",
        "12",
    ],
]
CHARACTERS = [*"▁abehilnotzé日本123.,", "'"]
PIECES = [
    *CONTROL_PIECES,
    *USER_PIECES,
    *(f"<0x{byte:02X}>" for byte in range(256)),
    *MERGED_PIECES,
    *CHARACTERS,
]
PIECE_TYPES = [
    *[3] * len(CONTROL_PIECES),
    *[4] * len(USER_PIECES),
    *[6] * 256,
    *[1] * len(MERGED_PIECES + CHARACTERS),
]
NUM_UNSCORED = len(PIECES) - len(MERGED_PIECES + CHARACTERS)
SCORES = [
    *[-1000.0] * NUM_UNSCORED,
    *(-float(rank) for rank in range(len(PIECES) - NUM_UNSCORED)),
]
SENTENCE_PIECES: Mapping[str, Any] = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.pre": "default",
    "tokenizer.ggml.tokens": PIECES,
    "tokenizer.ggml.token_type": PIECE_TYPES,
    "tokenizer.ggml.scores": SCORES,
    "tokenizer.ggml.bos_token_id": 2,
    "tokenizer.ggml.eos_token_id": 1,
    "tokenizer.ggml.unknown_token_id": 3,
    "tokenizer.ggml.padding_token_id": 0,
    "tokenizer.ggml.add_bos_token": True,
    "tokenizer.ggml.add_space_prefix": False,
}


@dataclass(frozen=True, slots=True)
class Family:
    """A tiny model of a family: its sizes, and what its metadata holds beyond them."""

    metadata: Mapping[str, Any]
    tokenizer: Mapping[str, Any]
    model_arch: gguf.MODEL_ARCH
    layers: int = LAYERS
    kv_heads: int = KV_HEADS
    head_dim: int = HEAD_DIM

    @property
    def vocab_size(self) -> int:
        return len(self.tokenizer["tokenizer.ggml.tokens"])


QWEN_PAIRS = {**BYTE_PAIRS, "tokenizer.ggml.pre": "qwen2"}
FAMILIES: Mapping[str, Family] = {
    "llama": Family({}, BYTE_PAIRS, gguf.MODEL_ARCH.LLAMA),
    "qwen2": Family({}, QWEN_PAIRS, gguf.MODEL_ARCH.QWEN2),
    "qwen3": Family(
        {"attention.key_length": 32, "attention.value_length": 32},
        QWEN_PAIRS,
        gguf.MODEL_ARCH.QWEN3,
        head_dim=32,
    ),
    "gemma3": Family(
        {
            "attention.key_length": 32,
            "attention.value_length": 32,
            "attention.sliding_window": 8,
            "rope.freq_base": 100_000.0,
            "attention.sliding_window_pattern": 3,
        },
        SENTENCE_PIECES,
        gguf.MODEL_ARCH.GEMMA3,
        layers=4,
        kv_heads=1,
        head_dim=32,
    ),
}


def make_metadata(architecture: str, family: Family) -> dict[str, Any]:
    """What the file says of a tiny model."""
    metadata = {
        "block_count": family.layers,
        "context_length": 128,
        "embedding_length": HIDDEN,
        "feed_forward_length": INNER,
        "attention.head_count": HEADS,
        "attention.head_count_kv": family.kv_heads,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 10_000.0,
        **family.metadata,
    }
    return {f"{architecture}.{key}": value for key, value in metadata.items()} | {
        **family.tokenizer
    }


def make_weights(architecture: str = "llama", family: Family | None = None) -> dict[str, Array]:
    """Random weights under Hugging Face's names and in its order of rows."""
    family = family or FAMILIES[architecture]
    generator = np.random.default_rng(7)
    queries, keys = HEADS * family.head_dim, family.kv_heads * family.head_dim
    norms = {"input_layernorm": HIDDEN, "post_attention_layernorm": HIDDEN}
    biases = {}
    if architecture == "gemma3":
        norms |= {"pre_feedforward_layernorm": HIDDEN, "post_feedforward_layernorm": HIDDEN}
    if architecture in ("qwen3", "gemma3"):
        norms |= {"self_attn.q_norm": family.head_dim, "self_attn.k_norm": family.head_dim}
    if architecture == "qwen2":
        biases = {"q_proj": queries, "k_proj": keys, "v_proj": keys}

    def draw(*shape: int) -> Array:
        return (0.3 * generator.standard_normal(shape)).astype(np.float32)

    tensors = {
        "model.embed_tokens.weight": draw(family.vocab_size, HIDDEN),
        "model.norm.weight": draw(HIDDEN),
    }
    if architecture != "gemma3":
        tensors["lm_head.weight"] = draw(family.vocab_size, HIDDEN)
    for layer in range(family.layers):
        prefix = f"model.layers.{layer}"
        tensors |= {
            f"{prefix}.self_attn.q_proj.weight": draw(queries, HIDDEN),
            f"{prefix}.self_attn.k_proj.weight": draw(keys, HIDDEN),
            f"{prefix}.self_attn.v_proj.weight": draw(keys, HIDDEN),
            f"{prefix}.self_attn.o_proj.weight": draw(HIDDEN, queries),
            f"{prefix}.mlp.gate_proj.weight": draw(INNER, HIDDEN),
            f"{prefix}.mlp.up_proj.weight": draw(INNER, HIDDEN),
            f"{prefix}.mlp.down_proj.weight": draw(HIDDEN, INNER),
            **{f"{prefix}.{norm}.weight": draw(size) for norm, size in norms.items()},
            **{f"{prefix}.self_attn.{name}.bias": draw(size) for name, size in biases.items()},
        }
    return tensors


def to_llama_cpp(
    architecture: str, family: Family, tensors: Mapping[str, Array]
) -> dict[str, Array]:
    """Rename and change weights the way llama.cpp's converter does."""
    names = gguf.get_tensor_name_map(family.model_arch, family.layers)
    converted = {}
    for name, values in tensors.items():
        for projection, heads in (("q_proj", HEADS), ("k_proj", family.kv_heads)):
            if architecture == "llama" and projection in name:
                halves = values.reshape(heads, 2, family.head_dim // 2, HIDDEN)
                values = halves.swapaxes(1, 2).reshape(values.shape)
        if architecture == "gemma3" and name.endswith("norm.weight"):
            values = values + 1
        target = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert target is not None
        converted[target] = values
    return converted


def write_gguf(
    path: Path,
    *,
    family: str = "llama",
    architecture: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Array | None] | None = None,
    quantized: Mapping[str, gguf.GGMLQuantizationType] | None = None,
    layers: int | None = None,
) -> Path:
    """Write a tiny model; what is given replaces its parts, and None leaves a part out.

    A tensor in `quantized` is given as the bytes of its blocks. `architecture` is another name
    for the family. `layers` gives the model so many.
    """
    tiny = FAMILIES[family]
    if layers is not None:
        tiny = replace(tiny, layers=layers)
    writer = gguf.GGUFWriter(path, architecture or family)
    for key, value in {**make_metadata(family, tiny), **(metadata or {})}.items():
        add_value(writer, key, value)
    stored = to_llama_cpp(family, tiny, make_weights(family, tiny))
    for name, values in {**stored, **(tensors or {})}.items():
        if values is not None:
            writer.add_tensor(name, values, raw_dtype=(quantized or {}).get(name))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_value(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    """Write one value of the metadata in the type that llama.cpp uses for it; None is left out."""
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value) if 0 <= value < 1 << 32 else writer.add_int64(key, value)
    elif isinstance(value, float):
        is_single = not math.isfinite(value) or abs(value) < 3e38
        writer.add_float32(key, value) if is_single else writer.add_float64(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, list):
        writer.add_array(key, value)


def resolve(path: Path, cache_dir: Path, dtype: DType = "float32") -> Path:
    """Resolve a GGUF file silently."""
    return sources.resolve_source(
        sources.LocalGguf(path),
        revision=None,
        dtype=dtype,
        cache_dir=cache_dir,
        show_progress=False,
    )


def left_in(cache_dir: Path) -> list[str]:
    """What a conversion leaves beside its lock, which may stay."""
    return [path.name for path in cache_dir.iterdir() if path.suffix != ".lock"]


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def load_fast(folder: Path) -> PreTrainedTokenizerBase:
    """A folder's tokenizer, as the engine's loader gets it."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.is_fast
    assert isinstance(tokenizer, PreTrainedTokenizerBase)
    return tokenizer


def resolve_and_report(
    path: Path, cache_dir: Path, name: str, may_convert: Event, events: "Queue[tuple[str, str]]"
) -> None:
    """Resolve in a process of its own; tell when it converts, waits for another, and is done."""

    def convert(*arguments: Any, **options: Any) -> None:
        events.put(("converts", name))
        assert may_convert.wait(60)
        convert_gguf(*arguments, **options)

    class Reporter(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            events.put(("waits", name))

    logger = logging.getLogger("engine.gguf.cache")
    logger.setLevel(logging.INFO)
    logger.addHandler(Reporter())
    with patch.object(sources, "convert_gguf", convert):
        events.put((str(resolve(path, cache_dir)), name))


def stall_in_the_middle(path: Path, cache_dir: Path, has_stalled: Event) -> None:
    """Convert in a process of its own up to the fourth tensor, then wait to be killed."""
    encoded = []

    def encode(*arguments: Any) -> Array:
        encoded.append(arguments)
        if len(encoded) == 4:
            has_stalled.set()
            threading.Event().wait()
        return real_encode(*arguments)

    real_encode = weights.encode
    with patch.object(weights, "encode", encode):
        resolve(path, cache_dir)


def die_at_moments(
    path: Path, cache_dir: Path, whole: dict[str, str], num_moments: int
) -> list[list[str]]:
    """Convert in processes that kill themselves, each at another call of a function.

    A moment is a number of calls and returns, Python's and C's, since the start. Random ones come
    first, each with what the one before left; then as many of the last tenth, when a made folder
    moves to its place, and the very last.
    Returns what the cache held after each death. What is no partial folder must be `whole`, the
    digest of a model. This process never converts itself: a fork of one that has used threads may
    hang.
    """
    tqdm.set_lock(threading.RLock())  # its own is one for all forks, and one may die holding it
    calls = count_calls(path, cache_dir)
    generator = random.Random(calls)
    moments = [generator.randrange(calls) for _ in range(num_moments)]
    left = [die_at(path, cache_dir, moment, whole) for moment in moments]
    late = [generator.randrange(calls * 9 // 10, calls) for _ in range(num_moments)]
    for moment in [*late, *range(calls - 1, calls - 200, -8)]:
        clear(cache_dir)
        left.append(die_at(path, cache_dir, moment, whole))
    return left


def die_at(path: Path, cache_dir: Path, moment: int, whole: dict[str, str]) -> list[str]:
    """Start a conversion that dies at a moment; returns what it leaves, but for its lock."""
    code = run_forked(partial(resolve_and_count, path, cache_dir, moment))
    assert code == -signal.SIGKILL
    left = left_in(cache_dir)
    for folder in (cache_dir / name for name in left):
        if folder.suffix != PARTIAL:
            assert folder_digest(folder) == whole
            shutil.rmtree(folder)
    return left


def clear(cache_dir: Path) -> None:
    """Leave no more than locks."""
    for name in left_in(cache_dir):
        shutil.rmtree(cache_dir / name)


def count_calls(path: Path, cache_dir: Path) -> int:
    """How many calls a conversion makes that ends well, in a cache that has been used."""
    note = cache_dir.with_name("calls")

    def convert() -> None:
        note.write_text(str(resolve_and_count(path, cache_dir, None)))

    for _ in range(2):
        assert run_forked(convert) == 0
        clear(cache_dir)
    return int(note.read_text())


def run_forked(work: Callable[[], object]) -> int:
    """Run in a fork of this process; returns its exit code, the negative signal that killed it."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def resolve_and_count(path: Path, cache_dir: Path, last: int | None) -> int:
    """Convert and return the number of calls; at the one numbered `last` the process dies."""
    calls = itertools.count()

    def count(*_: object) -> None:
        if next(calls) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
    resolve(path, cache_dir)
    sys.setprofile(None)
    return next(calls)


def folder_digest(folder: Path) -> dict[str, str]:
    """The files of a folder and a hash of each."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def resolve_on_a_full_disk(path: Path, cache_dir: Path) -> Path:
    """Resolve where no file may grow beyond 100 kB, which fails as a full disk does."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    return resolve(path, cache_dir)


def make_sentence_piece(
    tokens: list[str], scores: list[float], types: list[int], *, adds_space: bool
) -> SentencePieceProcessor:
    """SentencePiece's own tokenizer of the pieces that a GGUF file holds.

    A file may call the unknown piece a control one; SentencePiece insists on exactly one. The
    spaces of user-defined pieces, which llama.cpp unmarks, are marked again.
    """
    model = ModelProto()
    unknown = tokens.index("<unk>")
    for token_id, (token, score, kind) in enumerate(zip(tokens, scores, types, strict=True)):
        piece = model.pieces.add()
        piece.piece = token.replace(" ", "▁") if kind == gguf.TokenType.USER_DEFINED else token
        piece.score = score
        piece.type = gguf.TokenType.UNKNOWN if token_id == unknown else kind
    model.trainer_spec.model_type = model.trainer_spec.BPE
    model.trainer_spec.byte_fallback = True
    model.trainer_spec.vocab_size = len(tokens)
    for role in ("unk", "bos", "eos", "pad"):
        setattr(model.trainer_spec, f"{role}_id", tokens.index(f"<{role}>"))
        setattr(model.trainer_spec, f"{role}_piece", f"<{role}>")
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = adds_space
    model.normalizer_spec.remove_extra_whitespaces = False
    model.normalizer_spec.escape_whitespaces = True
    processor = SentencePieceProcessor()
    processor.LoadFromSerializedProto(model.SerializeToString())
    return processor
