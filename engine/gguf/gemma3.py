"""The Gemma 3 family, its text models; most layers see no further back than a window."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gguf import Keys

from engine.gguf.architecture import (
    HEAD_NORM_TENSORS,
    LAYER_TENSORS,
    MODEL_TENSORS,
    Architecture,
    ModelShape,
    TensorRule,
    read_context_length,
)
from engine.gguf.reader import FloatArray, GgufFile
from engine.gguf.rope import DEFAULT_ROPE_BASE, read_rope_base, read_rope_scaling

# Every sixth layer of the published models sees everything; files seldom say so.
DEFAULT_WINDOW_PATTERN = 6
# Only the 27B model divides its attention by another number than the length of a head, and its
# files say so nowhere: llama.cpp too knows it by its number of layers.
LAYERS_OF_27B = 62


def make_gemma3_config(file: GgufFile, shape: ModelShape) -> dict[str, Any]:
    """What a Gemma 3's config.json says beyond the sizes and the token ids.

    Raises:
        ModelLoadError: a number is missing or impossible, or the logits are capped, which this
            family's models cannot do.
    """
    for key in (Keys.LLM.FINAL_LOGIT_SOFTCAPPING, Keys.LLM.ATTN_LOGIT_SOFTCAPPING):
        if file.find(file.model_key(key), float):
            raise file.error(f"its {file.model_key(key)} is not supported")
    local_base = file.find_positive(file.model_key(Keys.Rope.FREQ_BASE_SWA))
    is_27b = shape.num_layers == LAYERS_OF_27B
    return {
        "hidden_activation": "gelu_pytorch_tanh",
        "rope_theta": read_rope_base(file),
        "rope_local_base_freq": local_base or DEFAULT_ROPE_BASE,
        "rope_scaling": read_rope_scaling(file),
        "query_pre_attn_scalar": shape.hidden_size // shape.num_heads if is_27b else shape.head_dim,
        "sliding_window": read_window(file),
        "sliding_window_pattern": read_window_pattern(file, shape),
        "attention_bias": False,
    }


def read_window(file: GgufFile) -> int:
    """How many tokens a local layer sees, the current one included.

    Raises:
        ModelLoadError: it is missing, below 1, or beyond the context.
    """
    window = file.need(file.model_key(Keys.Attention.SLIDING_WINDOW), int)
    if not 1 <= window <= read_context_length(file):
        raise file.error(f"its sliding window of {window} tokens is impossible")
    return window


def read_window_pattern(file: GgufFile, shape: ModelShape) -> int:
    """Every how manieth layer sees everything: 6 means five local ones, then a global one.

    Raises:
        ModelLoadError: it is below 1, or no layer would be global.
    """
    found = file.find(file.model_key(Keys.Attention.SLIDING_WINDOW_PATTERN), int)
    pattern = DEFAULT_WINDOW_PATTERN if found is None else found
    if not 1 <= pattern <= shape.num_layers:
        raise file.error(
            f"its window pattern of {pattern} does not fit its {shape.num_layers} layers"
        )
    return pattern


def subtract_one(weight: FloatArray, shape: ModelShape) -> FloatArray:
    """Undo what llama.cpp adds to a norm: Gemma's own weights are differences from 1."""
    return weight - 1


def without_one(rules: Mapping[str, TensorRule]) -> dict[str, TensorRule]:
    """The rules, those of norms with `subtract_one`."""
    return {
        name: replace(rule, transform=subtract_one) if "norm" in name else rule
        for name, rule in rules.items()
    }


GEMMA3 = Architecture(
    model_type="gemma3_text",
    class_name="Gemma3ForCausalLM",
    make_config=make_gemma3_config,
    model_tensors=without_one(MODEL_TENSORS),
    layer_tensors=without_one(
        {
            **LAYER_TENSORS,
            **HEAD_NORM_TENSORS,
            # Gemma has norms on both sides of both parts of a layer, so the one that other
            # families call by the attention before it is the feed-forward part's own here.
            "blk.{layer}.post_attention_norm.weight": TensorRule(
                "model.layers.{layer}.post_attention_layernorm.weight", ("hidden_size",)
            ),
            "blk.{layer}.ffn_norm.weight": TensorRule(
                "model.layers.{layer}.pre_feedforward_layernorm.weight", ("hidden_size",)
            ),
            "blk.{layer}.post_ffw_norm.weight": TensorRule(
                "model.layers.{layer}.post_feedforward_layernorm.weight", ("hidden_size",)
            ),
        }
    ),
)
