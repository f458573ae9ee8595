"""One real cluster a session, started by the launcher: the default configuration with API keys, and
two random models of two layers, one with a long context and one that has no chat template."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.support.server import REPOSITORY, Server, write_config
from tests.support.tiny_model import save_tiny_model

FILE_KEY, VARIABLE_KEY = "sk-of-the-file-5d1f", "sk-of-the-variable-8a20"
HEARTBEAT_S = 5.0
LONG_CONTEXT = 40_000

# As small as a model can be, or attention over a long prompt would take minutes on a CPU.
SLIM: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": LONG_CONTEXT,
}


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("serve")
    config = folder / "serve_config.yaml"
    keys = folder / "keys"
    keys.write_text(f"# of the tests\n{FILE_KEY}\n")
    changes: dict[str, dict[str, Any]] = {
        "smollm2-135m": {"name": "smollm2-135m", "aliases": ["smol", "org/smol:latest"]},
        "api": {"api_keys_file": str(keys), "heartbeat_s": HEARTBEAT_S},
    }
    models = [
        {"name": "long", "source": str(save_tiny_model(folder / "long", **SLIM))},
        {"name": "base", "source": str(save_tiny_model(folder / "base", template=None))},
    ]
    port = write_config(config, REPOSITORY / "serve_config.yaml", changes, models)
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
