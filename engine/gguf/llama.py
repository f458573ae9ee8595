"""The Llama family: Llama 2 and 3, SmolLM2 and others of their shape."""

import math
from typing import Any

import numpy as np
from gguf import Keys

from engine.gguf.architecture import (
    OUTPUT,
    ROPE_FACTORS,
    Architecture,
    ModelShape,
    TensorRule,
)
from engine.gguf.reader import FloatArray, GgufFile

DEFAULT_ROPE_BASE = 10_000.0
# Llama 3.1's rope scaling; of the published models up to 3.3 only the factor differs.
LOW_FREQ_FACTOR, HIGH_FREQ_FACTOR, ORIGINAL_CONTEXT = 1.0, 4.0, 8192


def make_llama_config(file: GgufFile, shape: ModelShape) -> dict[str, Any]:
    """What a Llama's config.json says beyond the sizes and the token ids."""
    base = file.find(file.model_key(Keys.Rope.FREQ_BASE), float) or DEFAULT_ROPE_BASE
    return {
        "hidden_act": "silu",
        "rms_norm_eps": file.need(file.model_key(Keys.Attention.LAYERNORM_RMS_EPS), float),
        "rope_theta": base,
        "rope_scaling": read_rope_scaling(file, shape, base),
        "attention_bias": False,
        "mlp_bias": False,
    }


def read_rope_scaling(file: GgufFile, shape: ModelShape, base: float) -> dict[str, Any] | None:
    """How positions beyond the first training length are stretched; None where they are not.

    Raises:
        ModelLoadError: the file stretches them in a way that is not known here.
    """
    kind = file.find(file.model_key(Keys.Rope.SCALING_TYPE), str) or "none"
    if kind == "none" and ROPE_FACTORS in file.tensor_names:
        return recover_llama3_scaling(file, shape, base)
    if kind == "none":
        return None
    if kind == "linear" and ROPE_FACTORS not in file.tensor_names:
        factor = file.need(file.model_key(Keys.Rope.SCALING_FACTOR), float)
        return {"rope_type": "linear", "factor": factor}
    raise file.error(f"its rope scaling {kind} is not supported")


def recover_llama3_scaling(file: GgufFile, shape: ModelShape, base: float) -> dict[str, Any]:
    """Turn the tensor of frequency divisors back into the numbers that it was made from.

    Raises:
        ModelLoadError: it was made from others than Llama 3.1's.
    """
    found = file.read(ROPE_FACTORS)
    factor = float(found.max(initial=1.0))
    expected = llama3_divisors(shape.head_dim, base, factor)
    if found.shape != expected.shape or not np.allclose(found, expected, rtol=1e-3):
        raise file.error(f"its tensor {ROPE_FACTORS} is not the rope scaling of a Llama 3.1")
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": LOW_FREQ_FACTOR,
        "high_freq_factor": HIGH_FREQ_FACTOR,
        "original_max_position_embeddings": ORIGINAL_CONTEXT,
    }


def llama3_divisors(head_dim: int, base: float, factor: float) -> FloatArray:
    """Divisors of the rotary frequencies, one a pair of dimensions: shape (head_dim / 2,).

    Hugging Face's formula for `rope_type: llama3`: waves longer than the original context are
    stretched by `factor`, those shorter than a quarter of it not at all, those between in part.
    """
    wavelengths = 2 * math.pi * base ** (np.arange(0, head_dim, 2) / head_dim)
    turns = ORIGINAL_CONTEXT / wavelengths
    kept = np.clip((turns - LOW_FREQ_FACTOR) / (HIGH_FREQ_FACTOR - LOW_FREQ_FACTOR), 0, 1)
    return (1 / ((1 - kept) / factor + kept)).astype(np.float32)


def unpermute(weight: FloatArray, num_heads: int) -> FloatArray:
    """Undo llama.cpp's order of the rows of a query or key projection, shape (rows, columns).

    A rotary embedding turns rows in pairs. Hugging Face pairs row i of a head with the row half a
    head further on, llama.cpp pairs neighbours, so its converter interleaves the two halves.
    """
    rows, columns = weight.shape
    pairs = weight.reshape(num_heads, rows // num_heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def unpermute_query(weight: FloatArray, shape: ModelShape) -> FloatArray:
    """`unpermute` by the number of query heads."""
    return unpermute(weight, shape.num_heads)


def unpermute_key(weight: FloatArray, shape: ModelShape) -> FloatArray:
    """`unpermute` by the number of key heads."""
    return unpermute(weight, shape.num_kv_heads)


LLAMA = Architecture(
    model_type="llama",
    class_name="LlamaForCausalLM",
    make_config=make_llama_config,
    model_tensors={
        "token_embd.weight": TensorRule("model.embed_tokens.weight", ("vocab_size", "hidden_size")),
        "output_norm.weight": TensorRule("model.norm.weight", ("hidden_size",)),
        OUTPUT: TensorRule("lm_head.weight", ("vocab_size", "hidden_size")),
    },
    layer_tensors={
        "blk.{layer}.attn_norm.weight": TensorRule(
            "model.layers.{layer}.input_layernorm.weight", ("hidden_size",)
        ),
        "blk.{layer}.attn_q.weight": TensorRule(
            "model.layers.{layer}.self_attn.q_proj.weight",
            ("query_size", "hidden_size"),
            unpermute_query,
        ),
        "blk.{layer}.attn_k.weight": TensorRule(
            "model.layers.{layer}.self_attn.k_proj.weight",
            ("key_size", "hidden_size"),
            unpermute_key,
        ),
        "blk.{layer}.attn_v.weight": TensorRule(
            "model.layers.{layer}.self_attn.v_proj.weight", ("key_size", "hidden_size")
        ),
        "blk.{layer}.attn_output.weight": TensorRule(
            "model.layers.{layer}.self_attn.o_proj.weight", ("hidden_size", "query_size")
        ),
        "blk.{layer}.ffn_norm.weight": TensorRule(
            "model.layers.{layer}.post_attention_layernorm.weight", ("hidden_size",)
        ),
        "blk.{layer}.ffn_gate.weight": TensorRule(
            "model.layers.{layer}.mlp.gate_proj.weight", ("intermediate_size", "hidden_size")
        ),
        "blk.{layer}.ffn_up.weight": TensorRule(
            "model.layers.{layer}.mlp.up_proj.weight", ("intermediate_size", "hidden_size")
        ),
        "blk.{layer}.ffn_down.weight": TensorRule(
            "model.layers.{layer}.mlp.down_proj.weight", ("hidden_size", "intermediate_size")
        ),
    },
)
