"""A real server for tests: `make serve`'s own launcher on a free port, and its processes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

REPOSITORY = Path(__file__).resolve().parents[2]
FAULTS = REPOSITORY / "tests/support/faults"
MARK = "ANTIPHON_TEST_SERVER"  # a variable that all processes of one server inherit
START_S, STOP_S = 240.0, 15.0
MODEL_APPLICATION = {"import_path": "deployments.model_app:build", "route_prefix": None}

Json = dict[str, Any]
NONE: Mapping[str, Json] = {}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def write_config(
    path: Path, source: Path, changes: Mapping[str, Json] = NONE, models: Sequence[Json] = ()
) -> int:
    """Copy a Serve YAML to a free port.

    `changes` are new `args:` by application name, `models` the `args:` of further models.
    """
    config = yaml.safe_load(source.read_text())
    port = config["http_options"]["port"] = free_port()
    for application in config["applications"]:
        application.setdefault("args", {}).update(changes.get(application["name"], {}))
    for args in models:
        config["applications"].insert(0, {**MODEL_APPLICATION, "name": args["name"], "args": args})
    api = next(each for each in config["applications"] if each["name"] == "api")
    api["args"]["models"] += [args["name"] for args in models]
    path.write_text(yaml.safe_dump(config))
    return port


@dataclass
class Server:
    """A running launcher; `output` is the file that holds what it prints.

    `key` is one of the server's API keys, where it asks for one.
    """

    process: subprocess.Popen[bytes]
    output: Path
    url: str
    mark: str
    orders: Path
    key: str = "none"

    @classmethod
    def start(
        cls, config: Path, port: int, folder: Path, key: str = "none", **variables: str
    ) -> "Server":
        """Run the launcher in a session of its own, so that signals reach it alone."""
        mark = uuid.uuid4().hex
        output = folder / "output"
        orders = folder / "orders"
        orders.mkdir(exist_ok=True)
        faults = {"PYTHONPATH": str(FAULTS), "ANTIPHON_TEST_ORDERS": str(orders)}
        data = {"ANTIPHON_DATA_DIR": str(folder / "data")}
        with output.open("wb") as sink:
            process = subprocess.Popen(
                [sys.executable, "-m", "deployments.launch", str(config)],
                cwd=REPOSITORY,
                env={**os.environ, **faults, **data, **variables, MARK: mark},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return cls(process, output, f"http://127.0.0.1:{port}", mark, orders, key)

    def kill_engine_thread(self, application: str) -> None:
        """Let the engine's thread of a model's replica die, while its process lives on."""
        (self.orders / application).touch()

    def wait_ready(self) -> None:
        """Wait until the launcher says that every model has answered."""
        deadline = time.monotonic() + START_S
        while "curl" not in self.output.read_text(errors="replace"):
            assert self.process.poll() is None, self.output.read_text(errors="replace")
            assert time.monotonic() < deadline, self.output.read_text(errors="replace")
            time.sleep(0.2)

    @property
    def log_folder(self) -> Path:
        """Where Serve's processes log."""
        (line,) = [one for one in self.output.read_text().splitlines() if "  logs    " in one]
        return Path(line.split(maxsplit=1)[1])

    def stop(self) -> int:
        """Interrupt it as Ctrl-C does, and wait for its end within the promised time."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(STOP_S)

    def pids(self, title: str = "") -> list[int]:
        """The server's processes whose command line holds `title`, a replica's for instance."""
        found = []
        for folder in Path("/proc").iterdir():
            try:
                environment = (folder / "environ").read_bytes()
                command = (folder / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if f"{MARK}={self.mark}".encode() in environment and title in command:
                found.append(int(folder.name))
        return found

    def health(self) -> tuple[int, dict[str, Any]]:
        """Status and body of `GET /health`."""
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=10) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    @property
    def headers(self) -> dict[str, str]:
        """What a request needs to be answered."""
        return {"authorization": f"Bearer {self.key}"}

    def engine(self, model: str) -> dict[str, float]:
        """The numbers of a model's one replica, by their names; empty while it has none."""
        request = urllib.request.Request(f"{self.url}/metrics", headers=self.headers)
        with urllib.request.urlopen(request, timeout=10) as reply:
            page = reply.read().decode()
        return {
            sample.name: sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.labels["model_name"] == model and "engine" in sample.labels
        }
