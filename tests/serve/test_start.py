"""Starts that cannot succeed: they end by themselves, with the cause, and leave no process."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.server import REPOSITORY, Server, write_config

END_S = 120


def start(folder: Path, **changes: dict[str, Any]) -> Server:
    config = folder / "config.yaml"
    port = write_config(config, REPOSITORY / "serve_config.yaml", changes)
    return Server.start(config, port, folder)


def check_failure(server: Server, cause: str) -> None:
    assert server.process.wait(END_S) == 1
    printed = server.output.read_text()
    assert cause in printed
    assert "Traceback" not in printed
    assert server.pids() == []


def test_an_unknown_key_is_refused_by_name(tmp_path: Path) -> None:
    server = start(tmp_path, api={"modles": ["smollm2-135m"]})
    check_failure(server, "application 'api': unknown key args.modles")


def test_a_server_open_to_the_network_without_a_key_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    port = write_config(config, REPOSITORY / "serve_config.yaml")
    content = yaml.safe_load(config.read_text())
    del content["http_options"]["host"]
    config.write_text(yaml.safe_dump(content))
    server = Server.start(config, port, tmp_path)
    check_failure(server, "http_options.host is '0.0.0.0'")


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    server = start(tmp_path, **{"smollm2-135m": {"source": str(tmp_path / "nowhere")}})
    check_failure(server, "nowhere")


def test_a_model_that_cannot_be_loaded_ends_the_start_with_the_cause(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "no-such-architecture"}')
    (model / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    server = start(tmp_path, **{"smollm2-135m": {"source": str(model)}})
    check_failure(server, "no-such-architecture")


def test_a_replica_that_has_no_place_ends_the_start_with_what_is_missing(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    port = write_config(config, REPOSITORY / "serve_config.yaml")
    content = yaml.safe_load(config.read_text())
    (store,) = [one for one in content["applications"] if one["name"] == "store"]
    store["deployments"] = [{"name": "store", "ray_actor_options": {"num_cpus": 1000}}]
    config.write_text(yaml.safe_dump(content))
    server = Server.start(config, port, tmp_path)
    check_failure(server, "a replica needs 1000 CPU")


@pytest.mark.parametrize("name", ["apple-silicon", "linux-cpu", "linux-cuda"])
def test_every_profile_is_read_up_to_the_download(tmp_path: Path, name: str) -> None:
    config = tmp_path / "config.yaml"
    port = write_config(config, REPOSITORY / "configs" / f"{name}.yaml")
    server = Server.start(config, port, tmp_path, HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path))
    check_failure(server, "cannot download the repository")
