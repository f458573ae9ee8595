"""The builder refuses, before a replica starts, keys and hosts that would leave the server open."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import ray

from configs.errors import SettingsError
from configs.settings import ApiSettings
from deployments import api_app
from deployments.api_app import build, find_http_host

SETTINGS = ApiSettings(models=("m",))
KEY = "sk-a-key-of-ours"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTIPHON_API_KEYS", raising=False)


def test_without_a_cluster_there_is_no_host_and_none_is_started() -> None:
    assert find_http_host() is None
    assert not ray.is_initialized()


def test_a_host_that_the_network_reaches_needs_a_key_or_the_permission(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(api_app, "find_http_host", lambda: "0.0.0.0")
    with pytest.raises(SettingsError, match="use this server without a key"):
        build(SETTINGS)
    build(SETTINGS.model_copy(update={"allow_without_key": True}))
    monkeypatch.setenv("ANTIPHON_API_KEYS", KEY)
    build(SETTINGS)


def test_a_key_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"args\.api_keys_file: there is no file"):
        build(SETTINGS.model_copy(update={"api_keys_file": tmp_path / "none"}))


def test_what_the_replicas_are_sent_has_the_keys_digests_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keys").write_text("sk-of-the-file")
    monkeypatch.setenv("ANTIPHON_API_KEYS", KEY)
    bound = build(SETTINGS.model_copy(update={"api_keys_file": tmp_path / "keys"}))
    sent_args: tuple[Any, ...] = bound._bound_deployment.init_args
    keys = sent_args[1]
    assert len(keys.digests) == 2
    assert keys.find_owner([f"Bearer {KEY}".encode()]) in keys.digests
    sent = pickle.dumps(sent_args)
    assert KEY.encode() not in sent
    assert b"sk-of-the-file" not in sent


def test_a_variable_decides_how_thoughts_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLXCEL_REASONING_ALIAS_FIELD", "none")
    sent: ApiSettings = build(SETTINGS)._bound_deployment.init_args[0]
    assert sent.reasoning_alias_field == "none"
    monkeypatch.setenv("MLXCEL_REASONING_ALIAS_FIELD", "thoughts")
    with pytest.raises(SettingsError, match="MLXCEL_REASONING_ALIAS_FIELD"):
        build(SETTINGS)
