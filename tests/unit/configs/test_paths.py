"""Folders follow the environment, and files are found beside the user or in the repository."""

from pathlib import Path

import pytest

from configs.errors import SettingsError
from configs.paths import REPOSITORY, cache_folder, data_folder, find_file, state_folder


def test_folders_are_the_ones_that_the_environment_names(tmp_path: Path) -> None:
    environment = {"ANTIPHON_CACHE_DIR": str(tmp_path / "c"), "ANTIPHON_STATE_DIR": "~/state"}
    assert cache_folder(environment) == tmp_path / "c"
    assert state_folder(environment) == Path.home() / "state"


def test_a_relative_folder_is_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cache_folder({"ANTIPHON_CACHE_DIR": "c"}) == tmp_path / "c"


@pytest.mark.parametrize("environment", [{}, {"ANTIPHON_CACHE_DIR": "", "ANTIPHON_STATE_DIR": ""}])
def test_without_variables_folders_are_the_platforms(environment: dict[str, str]) -> None:
    assert cache_folder(environment).name == "antiphon"
    assert state_folder(environment).name == "antiphon"
    assert cache_folder(environment).is_absolute()


def test_the_store_is_where_the_variable_says_else_the_setting_else_in_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    state = {"ANTIPHON_STATE_DIR": "s"}
    asked = {**state, "ANTIPHON_DATA_DIR": "~/asked"}
    assert data_folder(Path("set"), asked) == Path.home() / "asked"
    assert data_folder(None, asked) == Path.home() / "asked"
    assert data_folder(Path("set"), state) == tmp_path / "set"
    assert data_folder(Path("~/set"), {**state, "ANTIPHON_DATA_DIR": ""}) == Path.home() / "set"
    assert data_folder(Path("/set"), {}) == Path("/set")
    assert data_folder(None, state) == tmp_path / "s" / "store"


def test_a_folder_in_the_home_of_nobody_is_refused() -> None:
    nobody = "~no-such-user-here/x"
    with pytest.raises(SettingsError, match="cannot find the folder ~no-such-user-here/x"):
        data_folder(Path(nobody), {})
    for folder, variable in [
        (cache_folder, "ANTIPHON_CACHE_DIR"),
        (state_folder, "ANTIPHON_STATE_DIR"),
    ]:
        with pytest.raises(SettingsError, match=nobody):
            folder({variable: nobody})


def test_a_file_in_the_current_folder_comes_before_one_of_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_file(Path("pyproject.toml")) == REPOSITORY / "pyproject.toml"
    (tmp_path / "pyproject.toml").touch()
    assert find_file(Path("pyproject.toml")) == tmp_path / "pyproject.toml"


def test_a_missing_file_is_refused_with_the_places_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError) as caught:
        find_file(Path("no.jinja"))
    assert str(tmp_path / "no.jinja") in str(caught.value)
    assert str(REPOSITORY / "no.jinja") in str(caught.value)
    with pytest.raises(SettingsError, match="there is no file"):
        find_file(tmp_path)
