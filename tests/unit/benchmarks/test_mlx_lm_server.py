"""The other server is started as asked."""

import ctypes
import runpy
import sys
from pathlib import Path

import pytest

from benchmarks import mlx_lm_server


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The libraries that are loaded, with no server started."""
    libraries: list[str] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda path, mode: libraries.append(path))
    monkeypatch.setattr(runpy, "run_module", lambda *args, **kwargs: None)
    monkeypatch.setattr(mlx_lm_server, "find_blas", lambda: Path("/lib/blas.so"))
    monkeypatch.setattr(sys, "argv", [])
    return libraries


def test_the_blas_is_loaded_and_all_arguments_are_passed_on(loaded: list[str]) -> None:
    mlx_lm_server.main(["--port", "8081"])
    assert loaded == ["/lib/blas.so"]
    assert sys.argv == ["mlx_lm", "server", "--port", "8081"]


def test_without_preload_the_server_runs_as_it_is_installed(loaded: list[str]) -> None:
    mlx_lm_server.main(["--no-preload", "--port", "8081"])
    assert loaded == []
    assert sys.argv == ["mlx_lm", "server", "--port", "8081"]
