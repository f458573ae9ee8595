"""Runs Serve's own `serve run` on a cluster of its own; says when it is ready, or why it cannot be.

`deployments.launch` becomes this process once the environment is set. The main thread belongs to
`serve run`; another one watches the applications come up. Whatever ends this process also ends the
cluster, and leaves no process behind and, unless the start failed, no file.
"""

import argparse
import logging
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import click
import psutil
import ray
import yaml
from pydantic import BaseModel, ValidationError
from ray import serve
from ray.exceptions import RayError
from ray.serve import scripts
from ray.serve.exceptions import RayServeException
from ray.serve.schema import HTTPOptionsSchema, ServeDeploySchema, ServeStatus

from configs.environment import load_api_keys
from configs.errors import SettingsError
from configs.serve_file import ServeFile, describe, load_serve_file
from deployments.probe import NoAnswerError, check_port, first_answers
from deployments.startup import (
    ApplicationState,
    DeploymentState,
    find_failure,
    format_ready,
    is_up,
)
from deployments.stop_signals import StopSignals

SERVE_NAMESPACE = "serve"
# All processes of a cluster inherit this variable; its value is the cluster's own folder.
CLUSTER_MARK = "ANTIPHON_CLUSTER"
POLL_S = 0.5
# Serve waits for running requests at a stop; a person at the keyboard does not wait that long.
GRACE_S = 7.0
LEFTOVER_WAIT_S = 2.0
# The thread that notes a signal may be a moment behind the main thread, which the signal ends.
ASKED_WAIT_S = 1.0
ANSWER_TIMEOUT_S = 300.0
# Large models take minutes to load; what is not up after this will not come up.
START_TIMEOUT_S = 1800.0


class Stop(Protocol):
    """The end of the process, as the watcher sees it: has it been asked for, and ask for it."""

    @property
    def asked(self) -> threading.Event: ...

    def interrupt(self) -> None: ...


class StartWatcher:
    """Follows the start from a thread of its own, and stops the process where it cannot succeed.

    `key` is one of the server's API keys, where it has any.
    """

    def __init__(self, serve_file: ServeFile, key: str | None, logs: Path, stop: Stop) -> None:
        self.failure: str | None = None
        self._serve_file = serve_file
        self._key = key
        self._logs = logs
        self._stop = stop
        self._thread = threading.Thread(target=self._run, name="start-watcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        """Wait for the thread's end: a status asked after Ray's end would start a new cluster.

        A request of the thread that is still open ends with the server.
        """
        self._thread.join(timeout=2)

    def _run(self) -> None:
        failure: str | None = "its start could not be followed to the end"
        try:
            failure = self._follow()
        finally:
            if failure is not None and not self._stop.asked.is_set():
                self.failure = failure
                self._stop.interrupt()

    def _follow(self) -> str | None:
        """Wait until every model has answered; the reason where that cannot be."""
        end_s = time.monotonic() + START_TIMEOUT_S
        while not self._stop.asked.wait(POLL_S):
            if time.monotonic() > end_s:
                return f"not all applications run after {START_TIMEOUT_S:.0f} s"
            try:
                states = to_states(serve.status())
            except (RayError, RayServeException) as error:
                return f"Serve's controller does not answer: {error}"
            if failure := find_failure(states):
                return failure
            if is_up(self._serve_file.applications, states):
                return self._ask_models()
        return None

    def _ask_models(self) -> str | None:
        try:
            models = first_answers(self._serve_file, ANSWER_TIMEOUT_S, self._key)
        except NoAnswerError as error:
            return str(error)
        # The process is the one that `deployments.launch` began in, so this counts its part too.
        elapsed_s = time.time() - psutil.Process().create_time()
        needs_key = self._key is not None
        sys.stdout.write(
            format_ready(self._serve_file, models, elapsed_s, str(self._logs), needs_key)
        )
        sys.stdout.flush()
        return None


def to_states(status: ServeStatus) -> dict[str, ApplicationState]:
    """Serve's status as plain values."""
    return {
        name: ApplicationState(
            status=application.status.value,
            message=application.message,
            deployments={
                key: DeploymentState(deployment.status.value, deployment.message)
                for key, deployment in application.deployments.items()
            },
        )
        for name, application in status.applications.items()
    }


def check_schema(path: Path) -> None:
    """Check the parts of the file that are Serve's, before a cluster is started for it.

    Raises:
        SettingsError: where Serve would refuse it.
    """
    content = yaml.safe_load(path.read_bytes())
    try:
        ServeDeploySchema.model_validate(content)
    except ValidationError as error:
        raise SettingsError(f"{path}: {describe(error)}") from error
    # Serve itself ignores a misspelt key, and with `http_option` would answer the whole network.
    check_keys(path, "", content, ServeDeploySchema)
    check_keys(path, "http_options.", content.get("http_options") or {}, HTTPOptionsSchema)


def check_keys(path: Path, prefix: str, content: Mapping[str, Any], kind: type[BaseModel]) -> None:
    """Refuse keys that a schema of Serve's does not have.

    Raises:
        SettingsError: with the first such key.
    """
    for key in content:
        if key not in kind.model_fields:
            raise SettingsError(f"{path}: unknown key {prefix}{key}")


@contextmanager
def own_cluster(folder: Path, stop_signals: StopSignals) -> Iterator[None]:
    """A local cluster without a dashboard, and its end: on leaving, all its processes are gone."""
    os.environ[CLUSTER_MARK] = str(folder)
    try:
        ray.init(
            address="local",
            namespace=SERVE_NAMESPACE,
            include_dashboard=False,
            logging_level=logging.WARNING,
            _temp_dir=str(folder),
        )
        stop_signals.take_handlers()
        yield
    finally:
        stop_signals.finish()
        ray.shutdown(wait_for_processes=True)


def find_processes(mark: str) -> list[psutil.Process]:
    """The processes that have inherited our mark; some are no descendants any more.

    A raylet that is stopped while it starts leaves children to the system's first process.
    """
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and f"{CLUSTER_MARK}={mark}" in read_environment(process):
                found.append(process)
    return found


def read_environment(process: psutil.Process) -> list[str]:
    """A process's variables, `NAME=value` each.

    Ray's processes write their title over the beginning of theirs, where psutil stops reading.
    """
    block = Path(f"/proc/{process.pid}/environ")
    if block.exists():
        return block.read_bytes().decode(errors="replace").split("\0")
    return [f"{name}={value}" for name, value in process.environ().items()]


def end_processes(processes: list[psutil.Process]) -> None:
    """Kill what is left of a cluster, after a moment to end by itself."""
    _, alive = psutil.wait_procs(processes, timeout=LEFTOVER_WAIT_S)
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=LEFTOVER_WAIT_S)


def run_serve(path: Path) -> None:
    """What `serve run FILE` does, in this process; returns or raises when it has been stopped."""
    address = ray.get_runtime_context().gcs_address
    scripts.run.main([str(path), "--address", address], standalone_mode=False)


def serve_until_stopped(serve_file: ServeFile, key: str | None, folder: Path) -> str | None:
    """Run the applications until a signal ends them; the reason where nobody asked for the end."""
    stop_signals = StopSignals(GRACE_S)
    watcher = StartWatcher(serve_file, key, folder / "session_latest/logs/serve", stop_signals)
    try:
        stop_signals.install()
        with own_cluster(folder, stop_signals):
            watcher.start()
            try:
                run_serve(serve_file.path)
            finally:
                watcher.join()
    except (KeyboardInterrupt, click.Abort, SystemExit):
        was_asked = stop_signals.asked.wait(ASKED_WAIT_S)
    else:
        was_asked = False
    # Here and not beside Ray's own end: a signal in the midst of that end leaves all behind.
    stop_signals.finish()
    # Again, because what is ended first may have begun another process meanwhile.
    while processes := find_processes(str(folder)):
        end_processes(processes)
    return watcher.failure or (None if was_asked else "Serve has ended by itself")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve one file; the exit code is 0 after a stop that was asked for."""
    parser = argparse.ArgumentParser(prog="deployments.serve_run", description=__doc__)
    parser.add_argument("config", type=Path, help="a Serve YAML")
    path = parser.parse_args(arguments).config
    try:
        serve_file = load_serve_file(path, os.environ)
        keys = load_api_keys(serve_file.api, os.environ)
        check_schema(path)
        check_port(serve_file.host, serve_file.port)
    except SettingsError as error:
        sys.stderr.write(f"antiphon: {error}\n")
        return 1
    parent = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir())
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="r", dir=parent))
    failure = serve_until_stopped(serve_file, keys[0] if keys else None, folder)
    if failure is not None:
        sys.stderr.write(f"\nantiphon: {failure}\n  logs: {folder}\n")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
