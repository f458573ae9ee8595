"""A tiny Llama as llama.cpp would write it, and the parts of tests that run in other processes."""

import logging
import resource
import threading
from collections.abc import Mapping
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any
from unittest.mock import patch

import gguf
import numpy as np
import numpy.typing as npt
from tokenizers import pre_tokenizers

from engine import sources
from engine.gguf import weights
from engine.gguf.convert import convert_gguf

Array = npt.NDArray[Any]

LAYERS, HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM = 2, 64, 96, 4, 2, 16
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
TOKENS = ["<end>", "<turn>", "</turn>", "<think>", *BYTES, "he", "ll", "hell", "hello", "11", "111"]
TYPES = [3, 3, 3, 4, *[1] * (len(TOKENS) - 4)]
MERGES = ["h e", "l l", "he ll", "hell o"]

METADATA: Mapping[str, Any] = {
    "llama.block_count": LAYERS,
    "llama.context_length": 128,
    "llama.embedding_length": HIDDEN,
    "llama.feed_forward_length": INNER,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KV_HEADS,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.freq_base": 10_000.0,
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


def make_weights() -> dict[str, Array]:
    """Random weights under Hugging Face's names and in its order of rows."""
    generator = np.random.default_rng(7)

    def draw(*shape: int) -> Array:
        return generator.standard_normal(shape).astype(np.float32)

    tensors = {
        "model.embed_tokens.weight": draw(len(TOKENS), HIDDEN),
        "model.norm.weight": draw(HIDDEN),
        "lm_head.weight": draw(len(TOKENS), HIDDEN),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        tensors |= {
            f"{prefix}.input_layernorm.weight": draw(HIDDEN),
            f"{prefix}.self_attn.q_proj.weight": draw(HEADS * HEAD_DIM, HIDDEN),
            f"{prefix}.self_attn.k_proj.weight": draw(KV_HEADS * HEAD_DIM, HIDDEN),
            f"{prefix}.self_attn.v_proj.weight": draw(KV_HEADS * HEAD_DIM, HIDDEN),
            f"{prefix}.self_attn.o_proj.weight": draw(HIDDEN, HEADS * HEAD_DIM),
            f"{prefix}.post_attention_layernorm.weight": draw(HIDDEN),
            f"{prefix}.mlp.gate_proj.weight": draw(INNER, HIDDEN),
            f"{prefix}.mlp.up_proj.weight": draw(INNER, HIDDEN),
            f"{prefix}.mlp.down_proj.weight": draw(HIDDEN, INNER),
        }
    return tensors


def to_llama_cpp(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Rename and reorder weights the way llama.cpp's converter does."""
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, LAYERS)
    converted = {}
    for name, values in tensors.items():
        for projection, heads in (("q_proj", HEADS), ("k_proj", KV_HEADS)):
            if projection in name:
                halves = values.reshape(heads, 2, HEAD_DIM // 2, HIDDEN)
                values = halves.swapaxes(1, 2).reshape(values.shape)
        target = names.get_name(name, try_suffixes=(".weight",))
        assert target is not None
        converted[target] = values
    return converted


def write_gguf(
    path: Path,
    *,
    architecture: str = "llama",
    metadata: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Array | None] | None = None,
    quantized: Mapping[str, gguf.GGMLQuantizationType] | None = None,
) -> Path:
    """Write the tiny model; what is given replaces its parts, and None leaves a part out.

    A tensor in `quantized` is given as the bytes of its blocks.
    """
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in {**METADATA, **(metadata or {})}.items():
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, list):
            writer.add_array(key, value)
    for name, values in {**to_llama_cpp(make_weights()), **(tensors or {})}.items():
        if values is not None:
            writer.add_tensor(name, values, raw_dtype=(quantized or {}).get(name))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def resolve(path: Path, cache_dir: Path) -> Path:
    """Resolve a GGUF file to float32, silently."""
    return sources.resolve_source(
        sources.LocalGguf(path),
        revision=None,
        dtype="float32",
        cache_dir=cache_dir,
        show_progress=False,
    )


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


def resolve_on_a_full_disk(path: Path, cache_dir: Path) -> Path:
    """Resolve where no file may grow beyond 100 kB, which fails as a full disk does."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    return resolve(path, cache_dir)
