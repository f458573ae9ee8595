"""Runs Serve's own `serve run` on a Ray cluster of its own, and tells a person when it is ready or why not.

`deployments.launch` starts it as a process of its own, since Ray reads its environment on import. The
main thread belongs to `serve run`; one watching thread sees the applications come up. Whatever ends
the process ends the cluster with it, and leaves no process and, unless the start failed, no file.
"""

import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click
import ray
import yaml
from pydantic import ValidationError
from ray import serve
from ray.serve import scripts
from ray.serve.schema import ServeDeploySchema, ServeStatus

from configs.errors import SettingsError
from configs.serve_file import ServeFile, describe, load_serve_file
from deployments.first_answer import NoAnswerError, check_port, first_answers
from deployments.startup import (
    ApplicationState,
    DeploymentState,
    find_failure,
    format_ready,
    is_up,
)

POLL_S = 0.5
# Serve waits for running requests at a stop; a person at the keyboard does not wait that long.
GRACE_S = 8.0
ANSWER_TIMEOUT_S = 300.0


class StopSignals:
    """Makes SIGINT and SIGTERM end the main thread's work by KeyboardInterrupt, and only that work.

    The first asks Serve to shut down gracefully. The second, from a person or from the timer that the
    first one starts, cuts that short. Once `finish` is called signals are ignored: what follows is
    bounded, and interrupting it would leave processes behind.
    """

    def __init__(self, grace_s: float) -> None:
        self._timer = threading.Timer(grace_s, self.interrupt)
        self._timer.daemon = True
        self._main_thread = threading.main_thread()
        self._has_timer_started = False
        self._is_finished = False

    def install(self) -> None:
        """Take both signals; call it again after anything that takes them for itself."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def interrupt(self) -> None:
        """Do from another thread what Ctrl-C does; a sleep of the main thread ends at once."""
        if self._main_thread.ident is not None and not self._is_finished:
            signal.pthread_kill(self._main_thread.ident, signal.SIGINT)

    def finish(self) -> None:
        """Ignore all further signals."""
        self._is_finished = True
        self._timer.cancel()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._is_finished:
            return
        if not self._has_timer_started:
            self._has_timer_started = True
            self._timer.start()
        raise KeyboardInterrupt


class StartWatcher:
    """Follows the start from a thread of its own, and stops the process where it cannot succeed."""

    def __init__(self, serve_file: ServeFile, logs: Path, on_failure: Callable[[], None]) -> None:
        self._serve_file = serve_file
        self._logs = logs
        self._on_failure = on_failure
        self._started_s = time.monotonic()
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="start-watcher", daemon=True)
        self.failure: str | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask no more; a status asked after Ray's end would start a new cluster."""
        self._is_stopping.set()
        self._thread.join(timeout=2)

    def _run(self) -> None:
        self.failure = "the start was not followed to its end"
        try:
            self.failure = self._follow()
        finally:
            if self.failure is not None and not self._is_stopping.is_set():
                self._on_failure()

    def _follow(self) -> str | None:
        """Wait until every model has answered; the reason where that cannot be."""
        while not self._is_stopping.wait(POLL_S):
            states = to_states(serve.status())
            if failure := find_failure(states):
                return failure
            if is_up(self._serve_file.applications, states):
                return self._ask_models()
        return None

    def _ask_models(self) -> str | None:
        try:
            models = first_answers(self._serve_file, ANSWER_TIMEOUT_S)
        except NoAnswerError as error:
            return str(error)
        elapsed_s = time.monotonic() - self._started_s
        sys.stdout.write(format_ready(self._serve_file, models, elapsed_s, str(self._logs)))
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
    try:
        ServeDeploySchema.model_validate(yaml.safe_load(path.read_bytes()))
    except ValidationError as error:
        raise SettingsError(f"{path}: {describe(error)}") from error


@contextmanager
def own_cluster(folder: Path, stop_signals: StopSignals) -> Iterator[None]:
    """A local cluster without a dashboard, and its end: on leaving, all its processes are gone."""
    try:
        ray.init(
            address="local",
            namespace="serve",
            include_dashboard=False,
            log_to_driver=False,
            logging_level="warning",
            _temp_dir=str(folder),
        )
        stop_signals.install()
        yield
    finally:
        stop_signals.finish()
        ray.shutdown(wait_for_processes=True)


def run_serve(path: Path) -> None:
    """What `serve run FILE` does, in this process; returns when it has been stopped."""
    address = ray.get_runtime_context().gcs_address
    scripts.run.main([str(path), "--address", address], standalone_mode=False)


def serve_until_stopped(serve_file: ServeFile, folder: Path) -> str | None:
    """Run the applications until a signal ends them; the reason where they could not start."""
    stop_signals = StopSignals(GRACE_S)
    stop_signals.install()
    logs = folder / "session_latest" / "logs" / "serve"
    watcher = StartWatcher(serve_file, logs, stop_signals.interrupt)
    try:
        with own_cluster(folder, stop_signals):
            watcher.start()
            try:
                run_serve(serve_file.path)
            finally:
                watcher.stop()
    except (KeyboardInterrupt, SystemExit, click.Abort):
        pass
    return watcher.failure
