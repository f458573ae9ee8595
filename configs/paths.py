"""Where files of ours lie: the cache of models, the state, and files that a setting names."""

from collections.abc import Mapping
from pathlib import Path

from platformdirs import user_cache_path, user_state_path

from configs.errors import SettingsError

REPOSITORY = Path(__file__).resolve().parent.parent


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Where converted models are kept: ANTIPHON_CACHE_DIR, else the platform's cache folder."""
    return asked_folder(environment.get("ANTIPHON_CACHE_DIR")) or user_cache_path("antiphon")


def state_folder(environment: Mapping[str, str]) -> Path:
    """Where the cluster's token is kept: ANTIPHON_STATE_DIR, else the platform's state folder."""
    return asked_folder(environment.get("ANTIPHON_STATE_DIR")) or user_state_path("antiphon")


def asked_folder(text: str | None) -> Path | None:
    """The absolute folder that a variable names; None where it is unset or empty."""
    return Path(text).expanduser().absolute() if text else None


def find_file(path: Path) -> Path:
    """The absolute path of a file that a setting names, relative to here or to the repository.

    Raises:
        SettingsError: where there is no such file.
    """
    # A set would lose the order in which they are looked up.
    places = list(dict.fromkeys([Path.cwd() / path, REPOSITORY / path]))
    for place in places:
        if place.is_file():
            return place
    raise SettingsError(f"there is no file {' or '.join(str(place) for place in places)}")
