"""One real cluster a session: the default configuration and API keys, started by the launcher."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.support.server import REPOSITORY, Server, write_config

FILE_KEY, VARIABLE_KEY = "sk-of-the-file-5d1f", "sk-of-the-variable-8a20"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("serve")
    config = folder / "serve_config.yaml"
    keys = folder / "keys"
    keys.write_text(f"# of the tests\n{FILE_KEY}\n")
    changes: dict[str, dict[str, Any]] = {
        "smollm2-135m": {"name": "smollm2-135m", "aliases": ["smol", "org/smol:latest"]},
        "api": {"api_keys_file": str(keys)},
    }
    port = write_config(config, REPOSITORY / "serve_config.yaml", **changes)
    server = Server.start(config, port, folder, key=FILE_KEY, ANTIPHON_API_KEYS=VARIABLE_KEY)
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
        base_url=server.url + request.param, api_key=server.key, max_retries=0
    ) as client:
        yield client


@pytest.fixture
def v1(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{server.url}/v1", api_key=server.key, max_retries=0, timeout=120
    ) as client:
        yield client
