"""The Llama family: Llama 2 and 3, SmolLM2 and others of their shape."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from engine.gguf.architecture import (
    LAYER_TENSORS,
    MODEL_TENSORS,
    Architecture,
    ModelShape,
    TensorRule,
)
from engine.gguf.reader import FloatArray, GgufFile
from engine.gguf.rope import (
    ROPE_FACTORS,
    read_rope_base,
    read_rope_scaling,
    recover_llama3_scaling,
)


def make_llama_config(file: GgufFile, shape: ModelShape) -> dict[str, Any]:
    """What a Llama's config.json says beyond the sizes and the token ids.

    Raises:
        ModelLoadError: its positions are stretched in a way that is not known here, or in two.
    """
    base, scaling = read_rope_base(file), read_rope_scaling(file)
    if ROPE_FACTORS in file.tensor_names:
        if scaling is not None:
            raise file.error(f"its rope is scaled twice, by {ROPE_FACTORS} and by its metadata")
        scaling = recover_llama3_scaling(file, shape.head_dim, base)
    return {
        "hidden_act": "silu",
        "rope_theta": base,
        "rope_scaling": scaling,
        "attention_bias": False,
        "mlp_bias": False,
    }


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


def reorder(name: str, transform: Callable[[FloatArray, ModelShape], FloatArray]) -> TensorRule:
    """The rule that all families have for a tensor of a layer, with a change of its values."""
    return replace(LAYER_TENSORS[name], transform=transform)


QUERY, KEY = "blk.{layer}.attn_q.weight", "blk.{layer}.attn_k.weight"
LLAMA = Architecture(
    model_type="llama",
    class_name="LlamaForCausalLM",
    make_config=make_llama_config,
    model_tensors=MODEL_TENSORS,
    layer_tensors={
        **LAYER_TENSORS,
        QUERY: reorder(QUERY, unpermute_query),
        KEY: reorder(KEY, unpermute_key),
    },
    config_tensors=frozenset({ROPE_FACTORS}),
)
