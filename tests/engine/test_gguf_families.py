"""A model of each family, converted, computes what transformers computes from its own weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from engine.backend import load_model, make_prompt_cache, mx
from tests.engine.gguf_fixtures import (
    FAMILIES,
    HEADS,
    HIDDEN,
    INNER,
    Array,
    load_fast,
    make_weights,
    read_json,
    resolve,
    write_gguf,
)

IDS = [int(number) for number in np.random.default_rng(5).integers(0, 250, 100)]
ORIGINAL = "rope.scaling.original_context_length"
LINEAR: dict[str, Any] = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
YARN: dict[str, Any] = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, ORIGINAL: 32}


def make_reference(name: str, scaling: dict[str, Any]) -> PreTrainedModel:
    """The tiny model as transformers builds it from its own classes and the weights as drawn."""
    family = FAMILIES[name]
    sizes: dict[str, Any] = {
        "vocab_size": family.vocab_size,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": family.layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": family.kv_heads,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": name == "gemma3",
        "pad_token_id": 0,
    }
    rope = {"rope_type": "default", "rope_theta": 10_000.0, **scaling}
    model: PreTrainedModel
    match name:
        case "llama":
            model = LlamaForCausalLM(LlamaConfig(**sizes, rope_parameters=rope))
        case "qwen2":
            model = Qwen2ForCausalLM(Qwen2Config(**sizes, rope_parameters=rope))
        case "qwen3":
            model = Qwen3ForCausalLM(Qwen3Config(**sizes, rope_parameters=rope, head_dim=32))
        case _:
            model = Gemma3ForCausalLM(make_gemma3_config(sizes, rope))
    weights = {key: torch.from_numpy(value) for key, value in make_weights(name).items()}
    result = model.load_state_dict(weights, strict=False)
    tied = ["lm_head.weight"] if name == "gemma3" else []
    assert (result.missing_keys, result.unexpected_keys) == (tied, [])
    model.tie_weights()
    return model


def make_gemma3_config(sizes: dict[str, Any], rope: dict[str, Any]) -> Gemma3TextConfig:
    """Two bases, of which only that of the global layers is stretched; a window; a pattern."""
    local, whole = "sliding_attention", "full_attention"
    return Gemma3TextConfig(
        **sizes,
        head_dim=32,
        query_pre_attn_scalar=32,
        sliding_window=8,
        layer_types=[local, local, whole, local],
        rope_parameters={
            local: {"rope_type": "default", "rope_theta": 10_000.0},
            whole: {**rope, "rope_theta": 100_000.0},
        },
    )


def compute(model: PreTrainedModel) -> Array:
    with torch.no_grad():
        logits: Array = model(torch.tensor([IDS])).logits[0].numpy()
    return logits


@pytest.mark.parametrize(
    ("family", "metadata"),
    [
        ("llama", {}),
        ("llama", YARN),
        ("qwen2", {}),
        ("qwen2", YARN),
        ("qwen3", {}),
        ("qwen3", LINEAR),
        ("gemma3", {}),
        ("gemma3", LINEAR),
    ],
)
def test_a_family_computes_what_transformers_does(
    tmp_path: Path, family: str, metadata: dict[str, Any]
) -> None:
    scaling = {}
    if metadata:
        scaling = {"rope_type": metadata["rope.scaling.type"], "factor": 4.0}
    if ORIGINAL in metadata:
        scaling["original_max_position_embeddings"] = metadata[ORIGINAL]
    named = {f"{family}.{key}": value for key, value in metadata.items()}
    folder = resolve(
        write_gguf(tmp_path / "tiny.gguf", family=family, metadata=named), tmp_path / "cache"
    )
    expected = compute(make_reference(family, scaling))
    model, _ = load_model(folder)
    np.testing.assert_allclose(np.array(model(mx.array([IDS]))[0]), expected, atol=2e-4)
    loaded = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    np.testing.assert_allclose(compute(loaded), expected, atol=2e-4)


def test_a_gemma_computes_the_same_token_by_token_when_its_window_moves(tmp_path: Path) -> None:
    folder = resolve(write_gguf(tmp_path / "tiny.gguf", family="gemma3"), tmp_path / "cache")
    model, _ = load_model(folder)
    cache = make_prompt_cache(model)
    steps = [np.array(model(mx.array([[token_id]]), cache=cache)[0]) for token_id in IDS[:40]]
    expected = compute(make_reference("gemma3", {}))[:40]
    np.testing.assert_allclose(np.concatenate(steps), expected, atol=2e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_weight_comes_back_under_its_name(tmp_path: Path, family: str) -> None:
    folder = resolve(write_gguf(tmp_path / "tiny.gguf", family=family), tmp_path / "cache")
    expected, found = make_weights(family), load_file(folder / "model.safetensors")
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=2e-7, err_msg=name)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_vocabulary_has_as_many_tokens_as_the_embedding_has_rows(
    tmp_path: Path, family: str
) -> None:
    folder = resolve(write_gguf(tmp_path / "tiny.gguf", family=family), tmp_path / "cache")
    assert len(load_fast(folder)) == FAMILIES[family].vocab_size


def test_transformers_reads_a_gemmas_windows_and_bases(tmp_path: Path) -> None:
    metadata = {
        "gemma3.attention.sliding_window_pattern": None,
        "gemma3.rope.freq_base_swa": 20_000.0,
        "gemma3.rope.scaling.type": "linear",
        "gemma3.rope.scaling.factor": 8.0,
    }
    path = write_gguf(tmp_path / "g.gguf", family="gemma3", metadata=metadata, layers=8)
    config = AutoConfig.from_pretrained(resolve(path, tmp_path / "cache"))
    local, whole = "sliding_attention", "full_attention"
    assert config.layer_types == [*[local] * 5, whole, local, local]
    assert config.sliding_window == 8
    assert config.query_pre_attn_scalar == 32
    assert config.rope_parameters == {
        local: {"rope_type": "default", "rope_theta": 20_000.0},
        whole: {"rope_type": "linear", "rope_theta": 100_000.0, "factor": 8.0},
    }


def test_only_the_27b_gemma_scales_attention_by_its_width(tmp_path: Path) -> None:
    for layers, scalar in ((61, 32), (62, HIDDEN // HEADS)):
        path = write_gguf(tmp_path / f"{layers}.gguf", family="gemma3", layers=layers)
        config = read_json(resolve(path, tmp_path / "cache") / "config.json")
        assert config["query_pre_attn_scalar"] == scalar
