"""Environment variables override the store's settings, and a wrong one is named."""

import pytest

from configs.environment import STORE_VARIABLES, override_store_settings
from configs.errors import SettingsError
from configs.settings import StoreSettings


def test_without_variables_the_settings_stay() -> None:
    settings = StoreSettings(responses_store_max_entries=7)
    assert override_store_settings(settings, {"PATH": "/bin"}) == settings


def test_each_variable_overrides_its_setting() -> None:
    environment = {
        "LLAMA_ARG_RESPONSES_STORE_MAX_ENTRIES": "1",
        "MLXCEL_RESPONSES_STORE_MAX_BYTES": "2",
        "LLAMA_ARG_RESPONSES_STORE_TTL_SECS": "0",
    }
    assert override_store_settings(StoreSettings(), environment) == StoreSettings(
        responses_store_max_entries=1, responses_store_max_bytes=2, responses_store_ttl_secs=0
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
