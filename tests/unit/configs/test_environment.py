"""Environment variables override or add to settings, and a wrong one is named."""

from pathlib import Path

import pytest

from configs.environment import (
    ALIASES,
    STORE_VARIABLES,
    load_api_keys,
    override_api_settings,
    override_store_settings,
)
from configs.errors import SettingsError
from configs.serve_file import load_serve_file
from configs.settings import ApiSettings, StoreSettings

ALIAS = "MLXCEL_REASONING_ALIAS_FIELD"
SERVE_FILE = Path(__file__).parents[3] / "serve_config.yaml"


def test_without_variables_the_settings_stay() -> None:
    settings = StoreSettings(responses_store_max_entries=7)
    assert override_store_settings(settings, {"PATH": "/bin"}) == settings


def test_each_variable_overrides_its_setting() -> None:
    environment = {
        "LLAMA_ARG_RESPONSES_STORE_MAX_ENTRIES": "1",
        "MLXCEL_RESPONSES_STORE_MAX_BYTES": "2",
        "LLAMA_ARG_RESPONSES_STORE_TTL_SECS": "0",
        "LLAMA_ARG_CONVERSATION_STORE_MAX_ENTRIES": "3",
        "MLXCEL_CONVERSATION_STORE_MAX_BYTES": "0",
        "LLAMA_ARG_CONVERSATION_STORE_TTL_SECS": "4",
    }
    assert override_store_settings(StoreSettings(), environment) == StoreSettings(
        responses_store_max_entries=1,
        responses_store_max_bytes=2,
        responses_store_ttl_secs=0,
        conversation_store_max_entries=3,
        conversation_store_max_bytes=0,
        conversation_store_ttl_secs=4,
    )


def test_a_variable_leaves_the_other_settings_of_the_file() -> None:
    settings = StoreSettings(responses_store_max_entries=7, responses_store_ttl_secs=8)
    changed = override_store_settings(settings, {"LLAMA_ARG_RESPONSES_STORE_TTL_SECS": "9"})
    assert changed == StoreSettings(responses_store_max_entries=7, responses_store_ttl_secs=9)


@pytest.mark.parametrize("variable", STORE_VARIABLES)
@pytest.mark.parametrize("text", ["", "-1", "1.5", "1e3", " 1", "many", "٣", "9" * 5000])
def test_a_wrong_value_is_refused_with_the_name_of_its_variable(variable: str, text: str) -> None:
    with pytest.raises(SettingsError, match=variable):
        override_store_settings(StoreSettings(), {variable: text})


@pytest.mark.parametrize("word", ALIASES)
@pytest.mark.parametrize("setting", ALIASES)
def test_a_variable_names_the_second_key_of_thoughts(word: str, setting: str) -> None:
    settings = ApiSettings.model_validate({"models": ["m"], "reasoning_alias_field": setting})
    assert override_api_settings(settings, {"PATH": "/bin"}) == settings
    changed = override_api_settings(settings, {ALIAS: word})
    assert changed == settings.model_copy(update={"reasoning_alias_field": word})
    assert load_serve_file(SERVE_FILE, {ALIAS: word}).api.reasoning_alias_field == word


@pytest.mark.parametrize("word", ["", "None", " none", "reasoning_content", "1"])
def test_another_second_key_is_refused_with_the_name_of_its_variable(word: str) -> None:
    with pytest.raises(SettingsError, match=f"variable {ALIAS}: .* is not 'reasoning' or 'none'"):
        override_api_settings(ApiSettings(models=("m",)), {ALIAS: word})
    with pytest.raises(SettingsError, match=ALIAS):
        load_serve_file(SERVE_FILE, {ALIAS: word})


def test_keys_of_the_file_and_of_the_variable_are_united(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("sk-in-the-file\nsk-in-both\n")
    settings = ApiSettings(models=("m",), api_keys_file=file)
    environment = {"ANTIPHON_API_KEYS": "sk-in-both,sk-in-the-variable"}
    assert load_api_keys(settings, environment) == (
        "sk-in-the-file",
        "sk-in-both",
        "sk-in-the-variable",
    )


def test_without_file_and_variable_there_is_no_key() -> None:
    assert load_api_keys(ApiSettings(models=("m",)), {"PATH": "/bin"}) == ()


@pytest.mark.parametrize("text", ["", " ", ",", "\n,\n"])
def test_a_variable_that_is_set_and_holds_no_key_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="variable ANTIPHON_API_KEYS has no API key"):
        load_api_keys(ApiSettings(models=("m",)), {"ANTIPHON_API_KEYS": text})


def test_a_wrong_key_file_is_refused_with_the_settings_name(tmp_path: Path) -> None:
    settings = ApiSettings(models=("m",), api_keys_file=tmp_path / "none")
    with pytest.raises(SettingsError, match=r"args\.api_keys_file: there is no file .*none"):
        load_api_keys(settings, {"ANTIPHON_API_KEYS": "sk-a-key-of-ours"})
