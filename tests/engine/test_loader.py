"""Loading: what the files say, and files that are missing, damaged or lie."""

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.cache_cost import CacheCost
from engine.errors import ModelLoadError
from engine.loader import LoadedModel, load
from tests.support.tiny_model import CONFIG, TEMPLATE, make_tokenizer, save_tiny_model

Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("saved"))


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return shutil.copytree(saved, tmp_path / "model")


def load_tiny(folder: Path) -> LoadedModel:
    return load(folder, "float32", None, None)


def configure(**settings: Any) -> Damage:
    config = {key: value for key, value in {**CONFIG, **settings}.items() if value is not None}
    return write("config.json", json.dumps(config))


def write(name: str, content: str) -> Damage:
    return lambda folder: (folder / name).write_text(content)


def cut(name: str, num_bytes: int) -> Damage:
    def damage(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:num_bytes])

    return damage


def remove(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


def rewrite_header(**changes: Any) -> Damage:
    """Let the header of the weights lie about the final norm, whose content stays."""

    def damage(folder: Path) -> None:
        content = (folder / "model.safetensors").read_bytes()
        [length] = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + length])
        header["model.norm.weight"] |= changes
        encoded = json.dumps(header).encode()
        (folder / "model.safetensors").write_bytes(
            struct.pack("<Q", len(encoded)) + encoded + content[8 + length :]
        )

    return damage


def claim_header_of(num_bytes: int) -> Damage:
    return lambda folder: (folder / "model.safetensors").write_bytes(
        struct.pack("<Q", num_bytes) + b"{}"
    )


DAMAGES: list[tuple[str, Damage, str]] = [
    ("config is a list", write("config.json", "[]"), "config.json holds no JSON object"),
    ("config is cut", cut("config.json", 50), "config.json is not JSON"),
    ("config is deep", write("config.json", "[" * 100_000), "config.json is not JSON"),
    ("config is missing", remove("config.json"), "No such file"),
    ("no model_type", configure(model_type=None), "model_type"),
    ("model_type is a number", configure(model_type=3), "Model type 3 not supported"),
    ("model_type is a path", configure(model_type="../x"), "not supported"),
    ("model_type is no model", configure(model_type="cache"), "no attribute 'Model'"),
    ("model_type wants a package and exits", configure(model_type="olmo"), "cannot load"),
    ("size is a string", configure(hidden_size="64"), "cannot load"),
    ("size is beyond numbers", configure(hidden_size=2**40), "outside the supported range"),
    ("no heads", configure(num_attention_heads=0), "ZeroDivisionError"),
    ("weights are missing", configure(num_hidden_layers=9), "Missing 63 parameters"),
    ("weights are too many", configure(num_hidden_layers=1), "9 parameters not in model"),
    ("shapes differ", configure(vocab_size=100), r"Expected shape \(100, 64\)"),
    ("rope is a string", configure(rope_scaling="x"), "AttributeError"),
    ("quantization lacks a field", configure(quantization={"group_size": 64}), "bits"),
    ("eos is a string", configure(eos_token_id="x"), "eos_token_id of the model is no token"),
    ("eos is nested", configure(eos_token_id=[[1]]), "eos_token_id of the model is no token"),
    ("eos is negative", configure(eos_token_id=-1), "eos_token_id of the model is no token"),
    ("eos is a truth", configure(eos_token_id=True), "eos_token_id of the model is no token"),
    ("context is negative", configure(max_position_embeddings=-5), "a context of -5 tokens"),
    ("context is zero", configure(max_position_embeddings=0), "a context of 0 tokens"),
    ("generation config is a list", write("generation_config.json", "[]"), "no JSON object"),
    ("no weights", remove("model.safetensors"), "No safetensors found"),
    ("weights are empty", cut("model.safetensors", 0), "Unable to read"),
    ("header is cut", cut("model.safetensors", 100), "corrupt file"),
    ("weights are cut", cut("model.safetensors", 300_000), "corrupt file"),
    ("header is huge", claim_header_of(2**63), "Invalid json header length"),
    ("shape lies", rewrite_header(shape=[64, 1000]), "invalid data offsets"),
    ("shape is negative", rewrite_header(shape=[-64]), "invalid data offsets"),
    ("offset lies beyond the end", rewrite_header(data_offsets=[2**40, 2**40 + 256]), "offsets"),
    ("offsets are reversed", rewrite_header(data_offsets=[500, 5]), "invalid data offsets"),
    ("type is unknown", rewrite_header(dtype="X9"), "unsupported dtype X9"),
    ("no tokenizer", remove("tokenizer.json"), "tokenizer"),
    ("tokenizer is cut", cut("tokenizer.json", 500), "Failed to parse tokenizer.json"),
    ("tokenizer is empty", write("tokenizer.json", "{}"), "cannot load"),
    ("tokenizer is a list", write("tokenizer.json", "[]"), "cannot load"),
    ("tokenizer config is a list", write("tokenizer_config.json", "[]"), "no JSON object"),
    ("tokenizer config is cut", cut("tokenizer_config.json", 20), "is not JSON"),
    (
        "tokenizer config names a module",
        write("tokenizer_config.json", '{"tool_parser_type": "os"}'),
        "cannot load",
    ),
]


@pytest.mark.parametrize(
    ("damage", "reason"), [row[1:] for row in DAMAGES], ids=[row[0] for row in DAMAGES]
)
def test_damaged_files_are_refused_with_the_reason(
    folder: Path, damage: Damage, reason: str
) -> None:
    damage(folder)
    with pytest.raises(ModelLoadError, match=reason) as refusal:
        load_tiny(folder)
    assert (
        str(folder) in refusal.value.message
        or "of the model" in refusal.value.message
        or ("the model's configuration" in refusal.value.message)
    )
    assert len(refusal.value.message) < 1000


def test_what_a_model_takes_and_knows_is_measured(folder: Path) -> None:
    loaded = load_tiny(folder)
    assert loaded.num_logits == len(loaded.vocabulary) == 258
    assert loaded.cache_cost == CacheCost(token_bytes=2 * 2 * 2 * 16 * 4)


def test_a_model_that_cannot_be_batched_is_not_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.caches.find_obstacle", lambda cache: "no reason")
    with pytest.raises(ModelLoadError, match="llama cannot be served: no reason"):
        load_tiny(folder)


def test_ids_that_only_the_model_has_are_no_text(folder: Path, tmp_path: Path) -> None:
    padded = tmp_path / "padded"
    save_tiny_model(padded, vocab_size=300)
    loaded = load_tiny(padded)
    assert loaded.num_logits == len(loaded.vocabulary) == 300
    assert set(loaded.vocabulary[258:]) == {b""}


def test_ids_that_only_the_tokenizer_has_are_above_the_models(folder: Path) -> None:
    tokenizer = make_tokenizer(TEMPLATE)
    tokenizer.add_tokens(["<image>", "<audio>"])
    tokenizer.save_pretrained(folder)
    loaded = load_tiny(folder)
    assert loaded.tokenizer.encode("<audio>") == [259]
    assert loaded.num_logits == 258


def test_a_multimodal_configuration_keeps_its_text_settings_inside(folder: Path) -> None:
    inside = {"max_position_embeddings": 512, "eos_token_id": [1, 2]}
    configure(max_position_embeddings=None, eos_token_id=None, text_config=inside)(folder)
    loaded = load_tiny(folder)
    assert loaded.context_length == 512
    assert loaded.stop_ids == {1, 2, 257}


@pytest.mark.parametrize(
    ("given", "stop_ids"),
    [(257, {257}), ([1, 257], {1, 257}), ([3, 10**30], {3, 257}), (None, {257})],
)
def test_the_tokens_that_end_a_text_are_the_configurations_and_the_tokenizers(
    folder: Path, given: object, stop_ids: set[int]
) -> None:
    configure(eos_token_id=given)(folder)
    loaded = load_tiny(folder)
    assert loaded.stop_ids == stop_ids
    assert loaded.special_ids >= stop_ids
