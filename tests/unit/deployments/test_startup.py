"""Of what Serve says about a start, people get whether it works and the line that matters."""

import shlex
from pathlib import Path

import pytest

from configs.serve_file import ServeFile
from configs.settings import ApiSettings
from deployments.startup import (
    AnsweringModel,
    ApplicationState,
    DeploymentState,
    find_cause,
    find_failure,
    format_ready,
    is_up,
)

# What Serve 2.60 says, with fewer frames.
REPLICA = (
    "\x1b[36mray::ServeReplica:m0:model.initialize_and_get_metadata()\x1b[39m (pid=7, ip=192.0.2.2)"
)
CONSTRUCTOR_FAILED = f"""The deployment failed to start 3 times in a row. Error:
{REPLICA}
  File "/x/concurrent/futures/_base.py", line 456, in result
    return self.__get_result()
           ^^^^^^^^^^^^^^^^^^^
  File "/x/ray/serve/_private/replica.py", line 1928, in initialize
    raise RuntimeError(traceback.format_exc()) from None
RuntimeError: Traceback (most recent call last):
  File "/x/engine/loader.py", line 10, in read
    raise ValueError("the file is cut off")
ValueError: the file is cut off

The above exception was the direct cause of the following exception:

{REPLICA}
  File "/x/deployments/model_deployment.py", line 12, in __init__
    raise ModelLoadError(path) from error
engine.errors.ModelLoadError: cannot load m.gguf: its header is wrong"""

BUILD_FAILED = """Deploying app 'm0' failed with exception:
Traceback (most recent call last):
  File "/x/ray/serve/_private/application_state.py", line 926, in _reconcile_build_app_task
    serialized, args, err = ray.get(
                            ^^^^^^^^
ray.exceptions.RayTaskError(RuntimeError): \x1b[36mray::build_serve_application()\x1b[39m (pid=7)
  File "/x/ray/serve/_private/application_state.py", line 1843, in build_serve_application
    raise RuntimeError(err_str) from None
RuntimeError: Traceback (most recent call last):
  File "/x/deployments/model_app.py", line 30, in build
    raise ValidationError()
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelSettings
colour
  Extra inputs are not permitted
"""
SLOW = (
    "Deployment 'model' in application 'm0' has 1 replicas that have taken more than 15s to be "
    "scheduled. This may be due to waiting for the cluster to auto-scale or for a runtime "
    "environment to be installed. Resources required for each replica: {needed}, total resources "
    "available: {offered}. Use `ray status` for more details."
)


def deploying(message: str, status: str = "UPDATING") -> dict[str, ApplicationState]:
    return {
        "m0": ApplicationState("DEPLOYING", "", {"model": DeploymentState(status, message)}),
        "api": ApplicationState("RUNNING"),
    }


def test_it_is_up_when_every_application_runs() -> None:
    states = {"a": ApplicationState("RUNNING"), "b": ApplicationState("DEPLOYING")}
    assert is_up(["a"], states)
    assert not is_up(["a", "b"], states)
    assert not is_up(["a", "c"], states)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "A replica failed to start with exception. Retrying 2 more time(s). Error:\nboom",
        "Deployment 'm' has 1 replicas that have taken more than 15s to initialize.",
        SLOW.format(needed='{"CPU": 2}', offered='{"CPU": 2.0}'),
        SLOW.format(needed="UNKNOWN", offered="UNKNOWN"),
    ],
)
def test_a_start_that_may_still_succeed_is_no_failure(message: str) -> None:
    assert find_failure(deploying(message)) is None


def test_a_replica_without_a_place_fails_with_what_is_missing() -> None:
    message = SLOW.format(needed='{"CPU": 0.5, "gpu": 64}', offered='{"CPU": 2.0}')
    assert find_failure(deploying(message)) == (
        "application 'm0' has no place: a replica needs 64 gpu and 0 are free"
    )


def test_a_constructor_that_raises_fails_with_its_errors_the_last_one_first() -> None:
    states = {
        "m0": ApplicationState(
            "DEPLOY_FAILED",
            "Failed to update the deployments ['model'].",
            {"model": DeploymentState("DEPLOY_FAILED", CONSTRUCTOR_FAILED)},
        )
    }
    assert find_failure(states) == (
        "application 'm0' cannot start: ModelLoadError: cannot load m.gguf: its header is wrong\n"
        "  caused by ValueError: the file is cut off"
    )


def test_a_builder_that_raises_fails_with_all_lines_of_its_error() -> None:
    states = {"m0": ApplicationState("DEPLOY_FAILED", BUILD_FAILED)}
    assert find_failure(states) == (
        "application 'm0' cannot start: ValidationError: 1 validation error for ModelSettings\n"
        "colour\n  Extra inputs are not permitted"
    )


def test_a_cause_that_the_error_repeats_is_said_once() -> None:
    message = CONSTRUCTOR_FAILED.replace("its header is wrong", "the file is cut off")
    assert find_cause(message) == "ModelLoadError: cannot load m.gguf: the file is cut off"


def test_a_process_that_died_is_said_in_words() -> None:
    message = "The deployment failed to start 3 times in a row. Error:\nActorDiedError()"
    assert find_cause(message).startswith("its process died")


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("", "Serve gives no reason"),
        ("The import path is wrong.", "The import path is wrong."),
        ("Traceback (most recent call last):\n", "Serve gives no reason"),
        ("Traceback (most recent call last):\n  File x\nKeyError", "KeyError"),
    ],
)
def test_a_message_of_another_form_is_kept(message: str, cause: str) -> None:
    assert find_cause(message) == cause


def test_an_endless_cause_is_cut() -> None:
    assert len(find_cause("Error:\n" + "x" * 10_000)) == 2000


def test_the_ready_message_has_a_curl_line_that_a_shell_can_run() -> None:
    api = ApiSettings(models=("m",))
    serve_file = ServeFile(Path("f"), "127.0.0.1", 8123, ("m",), {}, {}, api, "/")
    text = format_ready(
        serve_file,
        [AnsweringModel("it's « m »"), AnsweringModel("n")],
        23.6,
        "/tmp/logs",
        needs_key=False,
    )
    assert "ready after 24 s at http://127.0.0.1:8123/v1\n" in text
    assert "models  it's « m », n\n" in text
    line = next(line for line in text.splitlines() if "curl" in line)
    words = shlex.split(line.partition("curl")[2])
    assert words[1:] == [
        "http://127.0.0.1:8123/v1/responses",
        "-H",
        "content-type: application/json",
        "-d",
        '{"model": "it\'s « m »", "input": "Say hello."}',
    ]


def test_where_a_key_is_needed_the_curl_line_has_a_place_for_it() -> None:
    api = ApiSettings(models=("m",))
    serve_file = ServeFile(Path("f"), "127.0.0.1", 8123, ("m",), {}, {}, api, "/")
    text = format_ready(serve_file, [AnsweringModel("m")], 1.0, "/tmp/logs", needs_key=True)
    line = next(line for line in text.splitlines() if "curl" in line)
    assert "authorization: Bearer YOUR-KEY" in shlex.split(line.partition("curl")[2])


@pytest.mark.parametrize(
    ("second", "path", "body"),
    [
        (True, "responses", '{"model": "n", "input": "Say hello."}'),
        (False, "completions", '{"model": "m", "prompt": "Hello, my name is"}'),
    ],
)
def test_the_curl_line_asks_what_a_model_can_answer(second: bool, path: str, body: str) -> None:
    serve_file = ServeFile(
        Path("f"), "127.0.0.1", 8123, ("m",), {}, {}, ApiSettings(models=("m",)), "/"
    )
    models = [AnsweringModel("m", takes_messages=False), AnsweringModel("n", second)]
    text = format_ready(serve_file, models, 1.0, "/tmp/logs", needs_key=False)
    line = next(line for line in text.splitlines() if "curl" in line)
    words = shlex.split(line.partition("curl")[2])
    assert (words[1], words[-1]) == (f"http://127.0.0.1:8123/v1/{path}", body)
    names = "m" if second else "m, n"
    assert f"  note    {names}: without a chat template, for texts alone\n" in text
