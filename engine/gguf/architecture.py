"""What a model family is: a table of tensors, and a function that makes its configuration.

A family is data, so a new one is one module beside `engine.gguf.llama`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from gguf import Keys

from engine.gguf.reader import FloatArray, GgufFile

OUTPUT = "output.weight"
# Positions are counted in 32 bits.
MAX_CONTEXT_LENGTH = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes that the shapes of all tensors follow from."""

    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int

    @property
    def query_size(self) -> int:
        """Length of all query heads together."""
        return self.num_heads * self.head_dim

    @property
    def key_size(self) -> int:
        """Length of all key heads together, and of all value heads."""
        return self.num_kv_heads * self.head_dim


@dataclass(frozen=True, slots=True)
class TensorRule:
    """One tensor: its name in Hugging Face's layout, its dimensions, and how its values change.

    `dimensions` are attributes of `ModelShape`, the outermost first.
    """

    target: str
    dimensions: tuple[str, ...]
    transform: Callable[[FloatArray, ModelShape], FloatArray] | None = None

    def expected_shape(self, shape: ModelShape) -> tuple[int, ...]:
        """The dimensions as numbers."""
        return tuple(getattr(shape, name) for name in self.dimensions)


@dataclass(frozen=True, slots=True)
class Architecture:
    """A model family; the names of layer tensors, GGUF's and ours, have a place for `{layer}`.

    `make_config` gives what config.json says beyond the sizes and the token ids. It is called when
    the tensors have the shapes that the sizes ask for. `config_tensors` are read by it alone and
    not written; a file may lack them.
    """

    model_type: str
    class_name: str
    model_tensors: Mapping[str, TensorRule]
    layer_tensors: Mapping[str, TensorRule]
    make_config: Callable[[GgufFile, ModelShape], dict[str, Any]]
    config_tensors: frozenset[str] = frozenset()


# The tensors that all families here have, under llama.cpp's names and Hugging Face's.
MODEL_TENSORS: Mapping[str, TensorRule] = {
    "token_embd.weight": TensorRule("model.embed_tokens.weight", ("vocab_size", "hidden_size")),
    "output_norm.weight": TensorRule("model.norm.weight", ("hidden_size",)),
    OUTPUT: TensorRule("lm_head.weight", ("vocab_size", "hidden_size")),
}
LAYER_TENSORS: Mapping[str, TensorRule] = {
    "blk.{layer}.attn_norm.weight": TensorRule(
        "model.layers.{layer}.input_layernorm.weight", ("hidden_size",)
    ),
    "blk.{layer}.attn_q.weight": TensorRule(
        "model.layers.{layer}.self_attn.q_proj.weight", ("query_size", "hidden_size")
    ),
    "blk.{layer}.attn_k.weight": TensorRule(
        "model.layers.{layer}.self_attn.k_proj.weight", ("key_size", "hidden_size")
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
}
# Norms of one head's queries and keys, which some families have.
HEAD_NORM_TENSORS: Mapping[str, TensorRule] = {
    "blk.{layer}.attn_q_norm.weight": TensorRule(
        "model.layers.{layer}.self_attn.q_norm.weight", ("head_dim",)
    ),
    "blk.{layer}.attn_k_norm.weight": TensorRule(
        "model.layers.{layer}.self_attn.k_norm.weight", ("head_dim",)
    ),
}


def read_shape(file: GgufFile, vocab_size: int) -> ModelShape:
    """Read the sizes of a model that has so many tokens.

    Raises:
        ModelLoadError: a size is missing, impossible, or contradicts another.
    """

    def need(key: str) -> int:
        return file.need(file.model_key(key), int)

    def find(key: str, default: int) -> int:
        value = file.find(file.model_key(key), int)
        return default if value is None else value

    hidden_size = need(Keys.LLM.EMBEDDING_LENGTH)
    num_heads = need(Keys.Attention.HEAD_COUNT)
    head_dim = find(Keys.Attention.KEY_LENGTH, hidden_size // max(num_heads, 1))
    for key in (Keys.Attention.VALUE_LENGTH, Keys.Rope.DIMENSION_COUNT):
        if find(key, head_dim) != head_dim:
            raise file.error(f"its {file.model_key(key)} is not the {head_dim} of its keys")
    shape = ModelShape(
        num_layers=need(Keys.LLM.BLOCK_COUNT),
        hidden_size=hidden_size,
        intermediate_size=need(Keys.LLM.FEED_FORWARD_LENGTH),
        num_heads=num_heads,
        num_kv_heads=find(Keys.Attention.HEAD_COUNT_KV, num_heads),
        head_dim=head_dim,
        vocab_size=vocab_size,
    )
    check_shape(file, shape)
    return shape


def check_shape(file: GgufFile, shape: ModelShape) -> None:
    """Refuse sizes that no model has, before anything is computed from them.

    Raises:
        ModelLoadError: a size is below 1, a head's is odd, heads do not share keys evenly, or the
            file has fewer tensors than layers.
    """
    smallest = min(getattr(shape, field.name) for field in fields(shape))
    if smallest < 1 or shape.head_dim % 2 or shape.num_heads % shape.num_kv_heads:
        raise file.error(f"its sizes are impossible: {shape}")
    if shape.num_layers > len(file.tensor_names):
        raise file.error(f"it has too few tensors for {shape.num_layers} layers")


def read_context_length(file: GgufFile) -> int:
    """The longest context that the model was trained for, in tokens.

    Raises:
        ModelLoadError: it is missing, below 1, or more than positions can be counted.
    """
    length = file.need(file.model_key(Keys.LLM.CONTEXT_LENGTH), int)
    if not 1 <= length <= MAX_CONTEXT_LENGTH:
        raise file.error(f"its context of {length} tokens is impossible")
    return length


def is_tied(file: GgufFile) -> bool:
    """Whether the output projection is the embedding itself, which llama.cpp stores once then."""
    return OUTPUT not in file.tensor_names


def make_config(file: GgufFile, architecture: Architecture, shape: ModelShape) -> dict[str, Any]:
    """The keys of config.json about the model: those of all families, then the family's own."""
    return {
        "architectures": [architecture.class_name],
        "model_type": architecture.model_type,
        "vocab_size": shape.vocab_size,
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": shape.num_layers,
        "num_attention_heads": shape.num_heads,
        "num_key_value_heads": shape.num_kv_heads,
        "head_dim": shape.head_dim,
        "max_position_embeddings": read_context_length(file),
        "rms_norm_eps": file.need_positive(file.model_key(Keys.Attention.LAYERNORM_RMS_EPS)),
        "tie_word_embeddings": is_tied(file),
        **architecture.make_config(file, shape),
    }
