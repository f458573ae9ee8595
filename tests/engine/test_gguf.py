"""GGUF files become folders in Hugging Face's layout: their weights and their configuration."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_torch_file
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from engine.backend import load_model, mx
from engine.precision import DType
from tests.engine.gguf_fixtures import (
    HEAD_DIM,
    HIDDEN,
    TOKENS,
    make_weights,
    read_json,
    resolve,
    write_gguf,
)


def test_every_weight_comes_back_under_its_name_and_in_hugging_faces_order(
    tiny_gguf: Path, cache_dir: Path
) -> None:
    expected = make_weights()
    found = load_file(resolve(tiny_gguf, cache_dir) / "model.safetensors")
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_config_is_a_plain_llamas(tiny_gguf: Path, cache_dir: Path) -> None:
    config = read_json(resolve(tiny_gguf, cache_dir) / "config.json")
    assert config.pop("rms_norm_eps") == pytest.approx(1e-5)
    assert config == {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(TOKENS),
        "hidden_size": 64,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 128,
        "tie_word_embeddings": False,
        "hidden_act": "silu",
        "rope_theta": 10000.0,
        "rope_scaling": None,
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "float32",
        "bos_token_id": 1,
        "eos_token_id": [2],
        "pad_token_id": 0,
    }


def test_a_file_without_an_output_tensor_ties_it_to_the_embedding(
    tmp_path: Path, cache_dir: Path
) -> None:
    path = write_gguf(tmp_path / "tied.gguf", tensors={"output.weight": None})
    folder = resolve(path, cache_dir)
    assert read_json(folder / "config.json")["tie_word_embeddings"] is True
    assert "lm_head.weight" not in load_file(folder / "model.safetensors")
    model, _ = load_model(folder)
    assert model(mx.array([[5, 6, 7]])).shape == (1, 3, len(TOKENS))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_smaller_number_types_are_rounded_as_torch_rounds(
    tiny_gguf: Path, cache_dir: Path, dtype: DType
) -> None:
    folder = resolve(tiny_gguf, cache_dir, dtype)
    assert read_json(folder / "config.json")["torch_dtype"] == dtype
    found = load_torch_file(folder / "model.safetensors")
    for name, values in make_weights().items():
        expected = torch.from_numpy(values).to(getattr(torch, dtype))
        assert torch.equal(found[name], expected), name


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_llama3s_rope_scaling_is_recovered_from_its_tensor(
    tmp_path: Path, cache_dir: Path, factor: float
) -> None:
    scaling = {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    config = LlamaConfig(
        hidden_size=HIDDEN,
        num_attention_heads=4,
        rope_parameters={**scaling, "rope_theta": 500_000.0},
    )
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    plain = 1 / 500_000.0 ** (torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    path = write_gguf(
        tmp_path / "llama3.gguf",
        metadata={"llama.rope.freq_base": 500_000.0},
        tensors={"rope_freqs.weight": (plain / scaled).numpy()},
    )
    assert read_json(resolve(path, cache_dir) / "config.json")["rope_scaling"] == scaling


def test_linear_rope_scaling_is_kept(tmp_path: Path, cache_dir: Path) -> None:
    scaling = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    folder = resolve(write_gguf(tmp_path / "linear.gguf", metadata=scaling), cache_dir)
    assert read_json(folder / "config.json")["rope_scaling"] == {
        "rope_type": "linear",
        "factor": 4.0,
    }
