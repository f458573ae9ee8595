"""Where files of ours lie: models, the state, the store, and files that a setting names."""

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


def data_folder(setting: Path | None, environment: Mapping[str, str]) -> Path:
    """Where the store on disk is: ANTIPHON_DATA_DIR, else the folder that the setting names, else
    `store` in the state folder. A relative one is looked up in the current folder.

    Raises:
        SettingsError: where the path begins with the home of nobody.
    """
    asked = asked_folder(environment.get("ANTIPHON_DATA_DIR"))
    if asked is None and setting is not None:
        asked = to_absolute(setting)
    return asked or state_folder(environment) / "store"


def asked_folder(text: str | None) -> Path | None:
    """The absolute folder that a variable names; None where it is unset or empty.

    Raises:
        SettingsError: where the path begins with the home of nobody.
    """
    return to_absolute(Path(text)) if text else None


def to_absolute(folder: Path) -> Path:
    try:
        return folder.expanduser().absolute()
    except RuntimeError as error:
        raise SettingsError(f"cannot find the folder {folder}: {error}") from error


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
