"""Environment variables beside the YAML's settings. They are read here and nowhere else."""

from collections.abc import Mapping

from configs.api_keys import read_key_file, split_keys
from configs.errors import SettingsError
from configs.settings import ApiSettings, StoreSettings

KEYS_VARIABLE = "ANTIPHON_API_KEYS"
ALIAS_VARIABLE = "MLXCEL_REASONING_ALIAS_FIELD"
ALIASES = ("reasoning", "none")  # the values of `ApiSettings.reasoning_alias_field`

STORE_VARIABLES: Mapping[str, str] = {
    "LLAMA_ARG_RESPONSES_STORE_MAX_ENTRIES": "responses_store_max_entries",
    "MLXCEL_RESPONSES_STORE_MAX_BYTES": "responses_store_max_bytes",
    "LLAMA_ARG_RESPONSES_STORE_TTL_SECS": "responses_store_ttl_secs",
    "LLAMA_ARG_CONVERSATION_STORE_MAX_ENTRIES": "conversation_store_max_entries",
    "MLXCEL_CONVERSATION_STORE_MAX_BYTES": "conversation_store_max_bytes",
    "LLAMA_ARG_CONVERSATION_STORE_TTL_SECS": "conversation_store_ttl_secs",
}


def override_store_settings(
    settings: StoreSettings, environment: Mapping[str, str]
) -> StoreSettings:
    """The settings with the values of those variables that are set.

    Raises:
        SettingsError: where a variable is not a whole number of 0 or more.
    """
    values = {
        key: to_count(variable, environment[variable])
        for variable, key in STORE_VARIABLES.items()
        if variable in environment
    }
    return settings.model_copy(update=values)


def override_api_settings(settings: ApiSettings, environment: Mapping[str, str]) -> ApiSettings:
    """The settings with the value of the variable, where it is set.

    Raises:
        SettingsError: where it is no word that the setting takes.
    """
    if ALIAS_VARIABLE not in environment:
        return settings
    text = environment[ALIAS_VARIABLE]
    if text not in ALIASES:
        words = " or ".join(map(repr, ALIASES))
        raise SettingsError(f"environment variable {ALIAS_VARIABLE}: {text!r} is not {words}")
    return settings.model_copy(update={"reasoning_alias_field": text})


def load_api_keys(settings: ApiSettings, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The keys of the file and of the variable, each once; none where neither is given.

    A variable that is set and empty is refused: whoever sets it does not want an open server.

    Raises:
        SettingsError: where the file or the variable cannot be read or has a wrong key.
    """
    keys: list[str] = []
    if settings.api_keys_file is not None:
        try:
            keys += read_key_file(settings.api_keys_file)
        except SettingsError as error:
            raise SettingsError(f"args.api_keys_file: {error}") from error
    if KEYS_VARIABLE in environment:
        text = environment[KEYS_VARIABLE]
        keys += split_keys(text, f"environment variable {KEYS_VARIABLE}")
    return tuple(dict.fromkeys(keys))


def to_count(variable: str, text: str) -> int:
    """The whole number that a variable holds.

    Raises:
        SettingsError: where it is something else; the message names the variable.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise SettingsError(
            f"environment variable {variable}: {text!r} is not a whole number of 0 or more"
        )
    return int(text)
