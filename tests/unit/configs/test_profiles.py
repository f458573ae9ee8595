"""The files that we ship are good ones, and answer this machine alone."""

from pathlib import Path

import pytest

from configs.paths import REPOSITORY
from configs.serve_file import load_serve_file
from configs.settings import StoreSettings

PROFILES = [REPOSITORY / "serve_config.yaml", *sorted((REPOSITORY / "configs").glob("*.yaml"))]


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.name)
def test_each_profile_is_valid_and_answers_this_machine_alone(path: Path) -> None:
    loaded = load_serve_file(path, {})
    assert loaded.models
    assert loaded.is_loopback
    assert loaded.base_url == "http://127.0.0.1:8000"


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.name)
def test_each_profile_keeps_what_it_stores_on_disk(path: Path) -> None:
    assert load_serve_file(path, {}).stores == {"store": StoreSettings(store_backend="sqlite")}


def test_the_default_file_serves_one_model_twice_once_with_tools() -> None:
    models = load_serve_file(REPOSITORY / "serve_config.yaml", {}).models
    plain, with_tools = models["smollm2-135m"], models["smollm2-135m-tools"]
    assert plain.source == with_tools.source
    assert plain.chat_template is None
    assert with_tools.chat_template == Path("configs/templates/chatml-hermes-tools.jinja")


def test_the_mac_profile_keeps_the_documented_alias() -> None:
    models = load_serve_file(REPOSITORY / "configs/apple-silicon.yaml", {}).models
    assert "qwen3-0.6b-4bit" in models["qwen3-0.6b"].aliases
