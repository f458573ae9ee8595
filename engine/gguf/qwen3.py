"""The Qwen3 family, of its dense models."""

from typing import Any

from engine.gguf.architecture import (
    HEAD_NORM_TENSORS,
    LAYER_TENSORS,
    MODEL_TENSORS,
    Architecture,
    ModelShape,
)
from engine.gguf.reader import GgufFile
from engine.gguf.rope import read_rope_base, read_rope_scaling


def make_qwen3_config(file: GgufFile, shape: ModelShape) -> dict[str, Any]:
    """What a Qwen3's config.json says beyond the sizes and the token ids."""
    return {
        "hidden_act": "silu",
        "rope_theta": read_rope_base(file),
        "rope_scaling": read_rope_scaling(file),
        "attention_bias": False,
        "use_sliding_window": False,
    }


QWEN3 = Architecture(
    model_type="qwen3",
    class_name="Qwen3ForCausalLM",
    make_config=make_qwen3_config,
    model_tensors=MODEL_TENSORS,
    layer_tensors={**LAYER_TENSORS, **HEAD_NORM_TENSORS},
)
