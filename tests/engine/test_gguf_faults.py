"""A GGUF file that is damaged, hostile or unknown gives a ModelLoadError and nothing else."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import ModelLoadError
from tests.engine.gguf_fixtures import (
    HIDDEN,
    MERGES,
    PIECE_TYPES,
    PIECES,
    SCORES,
    TOKENS,
    TYPES,
    left_in,
    resolve,
    write_gguf,
)

EPSILON = "llama.attention.layer_norm_rms_epsilon"
FACTORS = np.ones(8, np.float32)
HUGE_HEADS = {
    "llama.attention.key_length": 1 << 40,
    "llama.attention.value_length": 1 << 40,
    "llama.rope.dimension_count": 1 << 40,
}


def scale(kind: str, family: str = "llama", **numbers: float) -> dict[str, Any]:
    """The metadata of a scaled rope."""
    named = {"type": kind, **numbers}
    return {f"{family}.rope.scaling.{key}": value for key, value in named.items()}


def nan_tensor() -> np.ndarray[Any, Any]:
    values = np.ones((HIDDEN,), np.float32)
    values[3] = np.nan
    return values


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"architecture": "qwen9"}, "qwen9 is not one of: gemma3, llama, qwen2, qwen3"),
        ({"metadata": {"split.count": 3}}, "one of 3 parts"),
        ({"metadata": {"llama.block_count": None}}, "lacks llama.block_count"),
        ({"metadata": {"llama.block_count": 4_000_000_000}}, "too few tensors"),
        ({"metadata": {"llama.block_count": 3}}, "lacks 9 tensors, such as blk.2.attn_k.weight"),
        ({"metadata": {"llama.block_count": "2"}}, "llama.block_count is not of type int"),
        ({"metadata": {"llama.block_count": True}}, "llama.block_count is not of type int"),
        ({"metadata": {"llama.context_length": None}}, "lacks llama.context_length"),
        ({"metadata": {"llama.embedding_length": 65}}, "has shape"),
        ({"metadata": {"llama.attention.head_count": 0}}, "its sizes are impossible"),
        ({"metadata": {"llama.attention.head_count_kv": 3}}, "its sizes are impossible"),
        ({"metadata": {"llama.attention.key_length": 15}}, "its sizes are impossible"),
        ({"metadata": {"llama.rope.dimension_count": 8}}, "rope.dimension_count is not the 16"),
        (
            {"metadata": {"llama.rope.freq_base": 0.0}},
            "rope.freq_base 0.0 is not a positive number",
        ),
        ({"metadata": {"llama.rope.freq_base": -5.0}}, "is not a positive number"),
        ({"metadata": {"llama.rope.freq_base": math.nan}}, "rope.freq_base nan is not a positive"),
        ({"metadata": {"llama.rope.freq_base": 10_000}}, "rope.freq_base is not of type float"),
        ({"metadata": {EPSILON: math.inf}}, "rms_epsilon inf is not a positive number"),
        ({"metadata": {EPSILON: None}}, f"lacks {EPSILON}"),
        ({"metadata": {"llama.context_length": 0}}, "its context of 0 tokens is impossible"),
        ({"metadata": {"llama.context_length": -1}}, "its context of -1 tokens is impossible"),
        ({"metadata": {"llama.context_length": 1 << 40}}, "1099511627776 tokens is impossible"),
        ({"metadata": {"llama.attention.head_count": [4, 4]}}, "head_count is not of type int"),
        ({"metadata": {"llama.attention.key_length": 1 << 40}}, "not [4398046511104, 64]"),
        ({"metadata": HUGE_HEADS, "tensors": {"rope_freqs.weight": FACTORS}}, "has shape"),
        ({"metadata": scale("longrope")}, "its rope scaling longrope is not supported"),
        ({"metadata": scale("linear")}, "lacks llama.rope.scaling.factor"),
        ({"metadata": scale("linear", factor=0.0)}, "is not a positive number"),
        (
            {"metadata": scale("linear", factor=4.0, attn_factor=1.5)},
            "attn_factor is not supported",
        ),
        ({"metadata": scale("yarn", factor=4.0)}, "scaling.original_context_length"),
        ({"metadata": scale("yarn", factor=4.0, original_context_length=0)}, "impossible"),
        ({"metadata": scale("yarn", factor=0.5, original_context_length=64)}, "impossible"),
        (
            {"metadata": scale("linear", factor=2.0), "tensors": {"rope_freqs.weight": FACTORS}},
            "its rope is scaled twice",
        ),
        ({"tensors": {"rope_freqs.weight": np.full(8, 3, np.float32)}}, "not the rope scaling of"),
        ({"tensors": {"rope_freqs.weight": FACTORS[:5]}}, "not the rope scaling of"),
        ({"tensors": {"blk.1.ffn_up.weight": None}}, "lacks 1 tensors, such as blk.1.ffn_up"),
        ({"tensors": {"blk.0.attn_q.bias": nan_tensor()}}, "1 unknown tensors, such as blk.0"),
        ({"tensors": {"blk.0.ffn_up.weight": np.ones((64, 96), np.float32)}}, "has shape [64, 96]"),
        ({"tensors": {"blk.1.attn_norm.weight": nan_tensor()}}, "not finite in float32"),
        ({"tensors": {"output_norm.weight": np.ones(HIDDEN, np.int32)}}, "is of type I32"),
        ({"metadata": {"tokenizer.ggml.model": "bert"}}, "its tokenizer is of type bert"),
        ({"metadata": {"tokenizer.ggml.model": "llama"}}, "its tokenizer lacks 256 bytes"),
        ({"metadata": {"tokenizer.ggml.pre": "tekken"}}, "pre-tokenizer tekken is not one of"),
        ({"metadata": {"tokenizer.ggml.pre": None}}, "lacks tokenizer.ggml.pre"),
        ({"metadata": {"tokenizer.ggml.tokens": None}}, "lacks tokenizer.ggml.tokens"),
        ({"metadata": {"tokenizer.ggml.tokens": [1, 2]}}, "tokens is not a list of type str"),
        ({"metadata": {"tokenizer.ggml.tokens": "ab"}}, "tokens is not a list of type str"),
        ({"metadata": {"tokenizer.ggml.tokens": [*TOKENS[:-1], "he"]}}, "the same token twice"),
        ({"metadata": {"tokenizer.ggml.token_type": TYPES[:-1]}}, "token_type has"),
        ({"metadata": {"tokenizer.ggml.merges": [*MERGES, "he xyz"]}}, "merges 'he xyz'"),
        ({"metadata": {"tokenizer.ggml.merges": ["he"]}}, "merges 'he'"),
        ({"metadata": {"tokenizer.ggml.eos_token_id": None}}, "lacks tokenizer.ggml.eos_token_id"),
        ({"metadata": {"tokenizer.ggml.eos_token_id": 9999}}, "is not one of its"),
        (
            {"metadata": {"tokenizer.ggml.bos_token_id": None, "tokenizer.ggml.pre": "llama3"}},
            "lacks tokenizer.ggml.bos_token_id",
        ),
    ],
)
def test_a_faulty_file_is_named_with_its_fault_and_leaves_nothing(
    tmp_path: Path, cache_dir: Path, changes: dict[str, Any], reason: str
) -> None:
    path = write_gguf(tmp_path / "faulty.gguf", **changes)
    with pytest.raises(ModelLoadError) as caught:
        resolve(path, cache_dir)
    assert str(path) in caught.value.message
    assert reason in caught.value.message
    assert left_in(cache_dir) == []


def test_a_number_beyond_the_asked_type_is_refused(tmp_path: Path, cache_dir: Path) -> None:
    large = np.full(HIDDEN, 1e5, np.float32)
    path = write_gguf(tmp_path / "large.gguf", tensors={"output_norm.weight": large})
    assert resolve(path, cache_dir).is_dir()
    with pytest.raises(ModelLoadError, match=r"output_norm\.weight .* not finite in float16"):
        resolve(path, cache_dir, "float16")


# Faults of a family


def widen_heads() -> dict[str, Any]:
    """A Qwen2 whose heads are longer than its width divided by their number."""
    shapes = {"q.weight": (128, 64), "q.bias": (128,), "output.weight": (64, 128)}
    shapes |= {"k.weight": (64, 64), "k.bias": (64,), "v.weight": (64, 64), "v.bias": (64,)}
    return {
        "metadata": {"qwen2.attention.key_length": 32, "qwen2.attention.value_length": 32},
        "tensors": {
            f"blk.{layer}.attn_{name}": np.ones(shape, np.float32)
            for layer in range(2)
            for name, shape in shapes.items()
        },
    }


WINDOW, PATTERN = "attention.sliding_window", "attention.sliding_window_pattern"
LONG_PIECE = [*PIECES[:-1], "x" * 257]
SAME_PIECE = [*PIECES[:-1], "▁▁"]


def gemma(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {f"gemma3.{name}": value for name, value in metadata.items()}}


def pieces(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {f"tokenizer.ggml.{name}": value for name, value in metadata.items()}}


@pytest.mark.parametrize(
    ("family", "changes", "reason"),
    [
        (
            "qwen2",
            {"tensors": {"blk.1.attn_q.bias": None}},
            "lacks 1 tensors, such as blk.1.attn_q.",
        ),
        ("qwen2", widen_heads(), "its heads of 32 do not make up 64"),
        ("qwen2", pieces(pre="smollm"), "pre is not that of the family qwen2"),
        ("qwen2", {"tensors": {"rope_freqs.weight": FACTORS}}, "1 unknown tensors, such as rope_"),
        ("qwen2", {"metadata": scale("su", "qwen2")}, "its rope scaling su is not supported"),
        ("qwen3", {"tensors": {"blk.0.attn_q_norm.weight": None}}, "such as blk.0.attn_q_norm"),
        ("qwen3", {"tensors": {"blk.0.attn_k_norm.weight": FACTORS}}, "has shape [8], not [32]"),
        ("qwen3", {"metadata": {"qwen3.attention.head_count_kv": 3}}, "its sizes are impossible"),
        ("qwen3", {"metadata": {"qwen3.attention.value_length": 16}}, "is not the 32 of its keys"),
        ("gemma3", gemma(**{WINDOW: 0}), "its sliding window of 0 tokens is impossible"),
        ("gemma3", gemma(**{WINDOW: 129}), "its sliding window of 129 tokens is impossible"),
        ("gemma3", gemma(**{WINDOW: 1 << 40}), "1099511627776 tokens is impossible"),
        ("gemma3", gemma(**{WINDOW: None}), "lacks gemma3.attention.sliding_window"),
        ("gemma3", gemma(**{WINDOW: 8.0}), "sliding_window is not of type int"),
        ("gemma3", gemma(**{PATTERN: 0}), "its window pattern of 0 does not fit"),
        ("gemma3", gemma(**{PATTERN: 5}), "its window pattern of 5 does not fit its 4 layers"),
        ("gemma3", gemma(**{PATTERN: [True, False]}), "pattern is not of type int"),
        ("gemma3", gemma(**{"rope.freq_base_swa": math.inf}), "is not a positive number"),
        ("gemma3", gemma(final_logit_softcapping=30.0), "final_logit_softcapping is not supported"),
        ("gemma3", gemma(attn_logit_softcapping=math.nan), "attn_logit_softcapping is not supp"),
        (
            "gemma3",
            {"tensors": {"blk.0.post_ffw_norm.weight": None}},
            "such as blk.0.post_ffw_norm",
        ),
        ("gemma3", {"tensors": {"blk.2.attn_q_norm.weight": None}}, "such as blk.2.attn_q_norm"),
        ("gemma3", {"tensors": {"blk.2.attn_norm.weight": nan_tensor()}}, "not finite in float32"),
        ("gemma3", pieces(scores=None), "lacks tokenizer.ggml.scores"),
        ("gemma3", pieces(scores=SCORES[:-1]), "scores has 313 values, not 314"),
        ("gemma3", pieces(scores=[*SCORES[:-1], math.nan]), "scores are not all finite"),
        ("gemma3", pieces(scores=[*SCORES[:-1], math.inf]), "scores are not all finite"),
        ("gemma3", pieces(scores=[0] * len(PIECES)), "scores is not a list of type float"),
        ("gemma3", pieces(scores="high"), "scores is not a list of type float"),
        ("gemma3", pieces(tokens=LONG_PIECE), "a token of 257 characters"),
        ("gemma3", pieces(tokens=SAME_PIECE), "the same token twice"),
        ("gemma3", pieces(tokens=[*PIECES[:12], "zero", *PIECES[13:]]), "lacks 1 bytes, such as"),
        ("gemma3", pieces(token_type=[*PIECE_TYPES, 1]), "token_type has 315 values"),
        ("gemma3", pieces(unknown_token_id=len(PIECES)), "is not one of its"),
        ("gemma3", pieces(bos_token_id=None), "lacks tokenizer.ggml.bos_token_id"),
        ("gemma3", pieces(remove_extra_whitespaces=True), "whitespaces is not supported"),
        ("gemma3", pieces(precompiled_charsmap=[1, 2]), "charsmap is not of type bool"),
        ("gemma3", pieces(add_space_prefix="no"), "add_space_prefix is not of type bool"),
    ],
)
def test_a_fault_of_a_family_is_named_and_leaves_nothing(
    tmp_path: Path, cache_dir: Path, family: str, changes: dict[str, Any], reason: str
) -> None:
    path = write_gguf(tmp_path / "faulty.gguf", family=family, **changes)
    with pytest.raises(ModelLoadError) as caught:
        resolve(path, cache_dir)
    assert str(path) in caught.value.message
    assert reason in caught.value.message
    assert left_in(cache_dir) == []
