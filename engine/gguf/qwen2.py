"""The Qwen2 family: Qwen2 and 2.5, Coder, and the models distilled into them."""

from typing import Any

from gguf import Keys

from engine.gguf.architecture import (
    LAYER_TENSORS,
    MODEL_TENSORS,
    Architecture,
    ModelShape,
    TensorRule,
)
from engine.gguf.byte_pair import QWEN2_PRE_TOKENIZER, choose_pre_tokenizer
from engine.gguf.reader import GgufFile
from engine.gguf.rope import read_rope_base, read_rope_scaling


def make_qwen2_config(file: GgufFile, shape: ModelShape) -> dict[str, Any]:
    """What a Qwen2's config.json says beyond the sizes and the token ids.

    Raises:
        ModelLoadError: a head's size is not the one that follows from the number of heads, which
            is the only one that this family's models know; or text is cut in another way than
            Qwen2's, which transformers gives to this family whatever tokenizer.json says.
    """
    if choose_pre_tokenizer(file) != QWEN2_PRE_TOKENIZER:
        raise file.error(f"its {Keys.Tokenizer.PRE} is not that of the family {file.architecture}")
    if shape.query_size != shape.hidden_size:
        raise file.error(f"its heads of {shape.head_dim} do not make up {shape.hidden_size}")
    return {
        "hidden_act": "silu",
        "rope_theta": read_rope_base(file),
        "rope_scaling": read_rope_scaling(file),
        "use_sliding_window": False,
    }


QWEN2 = Architecture(
    model_type="qwen2",
    class_name="Qwen2ForCausalLM",
    make_config=make_qwen2_config,
    model_tensors=MODEL_TENSORS,
    layer_tensors={
        **LAYER_TENSORS,
        "blk.{layer}.attn_q.bias": TensorRule(
            "model.layers.{layer}.self_attn.q_proj.bias", ("query_size",)
        ),
        "blk.{layer}.attn_k.bias": TensorRule(
            "model.layers.{layer}.self_attn.k_proj.bias", ("key_size",)
        ),
        "blk.{layer}.attn_v.bias": TensorRule(
            "model.layers.{layer}.self_attn.v_proj.bias", ("key_size",)
        ),
    },
)
