"""One real cluster a session: the default configuration, started by the launcher."""

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.support.server import REPOSITORY, Server, write_config


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("serve")
    config = folder / "serve_config.yaml"
    changes = {"smollm2-135m": {"name": "smollm2-135m", "aliases": ["smol", "org/smol:latest"]}}
    port = write_config(config, REPOSITORY / "serve_config.yaml", **changes)
    server = Server.start(config, port, folder)
    try:
        server.wait_ready()
        yield server
        assert server.process.poll() is None, server.output.read_text(errors="replace")
        assert server.stop() == 0
        assert server.pids() == []
    finally:
        if server.process.poll() is None:
            server.process.kill()


@pytest.fixture(params=["/v1", ""], ids=["with /v1", "without /v1"])
def client(server: Server, request: pytest.FixtureRequest) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=server.url + request.param, api_key="sk-local", max_retries=0
    ) as client:
        yield client


@pytest.fixture
def v1(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{server.url}/v1", api_key="sk-local", max_retries=0, timeout=120
    ) as client:
        yield client
