"""Ray's environment: our variables unless the user has set theirs, and a token in any case."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from configs.errors import SettingsError
from configs.ray_environment import (
    RECOMMENDED,
    format_exports,
    make_private_folder,
    make_token,
    prepare_ray_environment,
    to_ray_environment,
)

TOKEN, TEMP = Path("/state/ray_token"), Path("/tmp/a")


def test_an_empty_environment_gets_every_variable() -> None:
    assert to_ray_environment({}, TOKEN, TEMP) == {
        **RECOMMENDED,
        "RAY_TMPDIR": "/tmp/a",
        "RAY_AUTH_TOKEN_PATH": "/state/ray_token",
        "RAY_AUTH_MODE": "token",
    }


def test_what_the_user_has_set_wins() -> None:
    mine = {"RAY_ADDRESS": "auto", "OMP_WAIT_POLICY": "ACTIVE", "RAY_TMPDIR": "/mine"}
    assert mine.keys().isdisjoint(to_ray_environment(mine, TOKEN, TEMP))


def test_an_empty_variable_counts_as_unset() -> None:
    assert to_ray_environment({"RAY_ADDRESS": ""}, TOKEN, TEMP)["RAY_ADDRESS"] == "local"


def test_a_cluster_without_a_token_cannot_be_asked_for() -> None:
    variables = to_ray_environment({"RAY_AUTH_MODE": "disabled"}, TOKEN, TEMP)
    assert variables["RAY_AUTH_MODE"] == "token"


@pytest.mark.parametrize("variable", ["RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"])
def test_a_token_of_the_users_own_is_kept(variable: str, tmp_path: Path) -> None:
    environment = {variable: "mine", "ANTIPHON_STATE_DIR": str(tmp_path), "RAY_TMPDIR": "/mine"}
    assert "RAY_AUTH_TOKEN_PATH" not in prepare_ray_environment(environment)
    assert not list(tmp_path.iterdir())


def test_the_token_is_long_private_and_made_once(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "ray_token"
    make_token(path)
    token = path.read_text()
    make_token(path)
    assert len(token) == 64
    assert path.read_text() == token
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_launchers_that_start_together_agree_on_one_token(tmp_path: Path) -> None:
    def read(_: int) -> str:
        make_token(tmp_path / "ray_token")
        return (tmp_path / "ray_token").read_text()

    with ThreadPoolExecutor(8) as threads:
        tokens = set(threads.map(read, range(8)))
    assert len(tokens) == 1
    assert len(tokens.pop()) == 64


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ray_token"
    path.write_text("known")
    path.chmod(0o644)
    with pytest.raises(SettingsError, match="others can read"):
        make_token(path)


def test_a_token_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="cannot make the cluster's token"):
        make_token(tmp_path / "file" / "ray_token")


def test_the_temporary_folder_is_this_users_alone(tmp_path: Path) -> None:
    make_private_folder(tmp_path / "t")
    make_private_folder(tmp_path / "t")
    assert (tmp_path / "t").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_a_temporary_folder_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t").chmod(mode)
    with pytest.raises(SettingsError, match="RAY_TMPDIR"):
        make_private_folder(tmp_path / "t")


def test_a_link_or_a_file_in_the_temporary_folders_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(SettingsError, match="RAY_TMPDIR"):
            make_private_folder(tmp_path / name)


def test_a_shell_that_evaluates_the_lines_has_the_variables() -> None:
    lines = format_exports({"A": "it's $HOME", "B": "^\\s*(•.*)?$"})
    script = f'{lines}printf \'%s|%s\' "$A" "$B"'
    shown = subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout
    assert shown.decode() == "it's $HOME|^\\s*(•.*)?$"


def test_the_module_prints_lines_for_a_shell(tmp_path: Path) -> None:
    environment = os.environ | {"ANTIPHON_STATE_DIR": str(tmp_path), "RAY_ADDRESS": ""}
    command = [sys.executable, "-m", "configs.ray_environment"]
    shown = subprocess.run(command, env=environment, capture_output=True, check=True).stdout
    assert b"export RAY_ADDRESS=local\n" in shown
    assert f"export RAY_AUTH_TOKEN_PATH={tmp_path}/ray_token\n".encode() in shown
