"""The process that serves: what it takes from Serve's types, and refuses before Ray starts."""

import os
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import psutil
import pytest
from ray import serve
from ray.serve._private.common import DeploymentStatus, DeploymentStatusTrigger
from ray.serve.schema import (
    ApplicationStatus,
    ApplicationStatusOverview,
    DeploymentStatusOverview,
    ServeStatus,
)

from configs.errors import SettingsError
from configs.paths import REPOSITORY
from configs.serve_file import load_serve_file
from deployments import serve_run
from deployments.probe import NoAnswerError
from deployments.serve_run import (
    StartWatcher,
    check_schema,
    end_processes,
    find_processes,
    main,
    to_states,
)
from deployments.startup import AnsweringModel, ApplicationState, DeploymentState

PROFILES = [REPOSITORY / "serve_config.yaml", *sorted((REPOSITORY / "configs").glob("*.yaml"))]


def test_serves_status_becomes_plain_values() -> None:
    deployment = DeploymentStatusOverview(
        status=DeploymentStatus.DEPLOY_FAILED,
        status_trigger=DeploymentStatusTrigger.REPLICA_STARTUP_FAILED,
        replica_states={},
        message="boom",
    )
    application = ApplicationStatusOverview(
        status=ApplicationStatus.DEPLOYING,
        message="soon",
        last_deployed_time_s=0.0,
        deployments={"model": deployment},
    )
    assert to_states(ServeStatus(applications={"m0": application})) == {
        "m0": ApplicationState(
            "DEPLOYING", "soon", {"model": DeploymentState("DEPLOY_FAILED", "boom")}
        )
    }


def test_before_serve_has_started_there_is_no_state() -> None:
    assert to_states(ServeStatus()) == {}


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.name)
def test_serve_itself_takes_each_profile(path: Path) -> None:
    check_schema(path)


def test_what_serve_would_refuse_is_refused_with_the_key(tmp_path: Path) -> None:
    path = tmp_path / "serve.yaml"
    path.write_text("applications: [{import_path: nowhere}]")
    with pytest.raises(SettingsError, match=r"serve\.yaml: applications\.0\.import_path"):
        check_schema(path)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("http_option: {port: 1}\n", "http_option"),
        ("http_options: {prot: 1}\n", "http_options.prot"),
    ],
)
def test_a_misspelt_key_of_serves_is_refused(tmp_path: Path, text: str, key: str) -> None:
    path = tmp_path / "serve.yaml"
    path.write_text(f"{text}applications: [{{import_path: 'a:b'}}]")
    with pytest.raises(SettingsError, match=rf"unknown key {key}$"):
        check_schema(path)


def test_a_mistake_ends_it_before_a_cluster_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "no.yaml")]) == 1
    assert capsys.readouterr().err.startswith("antiphon: cannot read")


class RecordedStop:
    """Notes a stop in place of sending a signal to the process of the tests."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def interrupt(self) -> None:
        self.asked.set()


def overview(status: ApplicationStatus, message: str = "") -> ApplicationStatusOverview:
    return ApplicationStatusOverview(status, message, 0.0, {})


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Follow the start of the default file while Serve says one status after another."""
    serve_file = load_serve_file(REPOSITORY / "serve_config.yaml", {})

    def follow(*statuses: dict[str, ApplicationStatusOverview]) -> tuple[str | None, bool]:
        replies = iter(statuses)
        monkeypatch.setattr(serve_run, "POLL_S", 0)
        monkeypatch.setattr(serve, "status", lambda: ServeStatus(applications=next(replies)))
        stop_signals = RecordedStop()
        watcher = StartWatcher(serve_file, "sk-a-key-of-ours", tmp_path, stop_signals)
        watcher.start()
        watcher.join()
        return watcher.failure, stop_signals.asked.is_set()

    return follow


APPLICATIONS = ("smollm2-135m", "smollm2-135m-tools", "store", "api")
RUNNING = {name: overview(ApplicationStatus.RUNNING) for name in APPLICATIONS}


def test_a_start_that_cannot_succeed_stops_the_process_with_the_cause(watch: Any) -> None:
    failed = {"api": overview(ApplicationStatus.DEPLOY_FAILED, "no such module")}
    deploying = {"api": overview(ApplicationStatus.DEPLOYING)}
    assert watch({}, deploying, failed) == ("application 'api' cannot start: no such module", True)


def test_when_all_models_have_answered_it_says_so_and_goes_on(
    watch: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(serve_file: Any, timeout_s: float, key: str | None) -> list[AnsweringModel]:
        assert key == "sk-a-key-of-ours"
        return [AnsweringModel("smollm2-135m")]

    monkeypatch.setattr(serve_run, "first_answers", answer)
    waiting = RUNNING | {"api": overview(ApplicationStatus.DEPLOYING)}
    assert watch(waiting, RUNNING) == (None, False)
    out = capsys.readouterr().out
    assert "Antiphon is ready" in out
    assert "sk-a-key-of-ours" not in out


def test_a_model_that_does_not_answer_stops_the_process(
    watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> list[AnsweringModel]:
        raise NoAnswerError("no reply within 300 s")

    monkeypatch.setattr(serve_run, "first_answers", fail)
    assert watch(RUNNING) == ("no reply within 300 s", True)


def test_a_process_is_found_by_its_mark_also_when_its_parent_has_gone() -> None:
    mark = uuid.uuid4().hex
    sleeper = "import time; print('on', flush=True); time.sleep(60)"
    orphaning = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {sleeper!r}])"
    environment = {**os.environ, serve_run.CLUSTER_MARK: mark}
    with subprocess.Popen(
        [sys.executable, "-c", orphaning], env=environment, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"on\n"
        parent.wait()
        (orphan,) = find_processes(mark)
        end_processes([orphan])
    assert find_processes(mark) == []


def test_processes_that_are_left_are_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_run, "LEFTOVER_WAIT_S", 0.05)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as left:
        end_processes([psutil.Process(left.pid)])
        assert not psutil.pid_exists(left.pid)
