"""Reads what Serve says about a start: has it come up, and if it cannot, why, in a line or two.

Pure: statuses and messages in, words out. Serve's messages hold tracebacks of several processes, of
which people need the end.
"""

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from configs.serve_file import ServeFile

MAX_CAUSE_CHARACTERS = 2000

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# A line after which frames come: Python's, with or without an exception that carries the traceback
# as its text, Ray's, and the two that join a cause to what it caused.
FRAMES_FOLLOW = re.compile(
    r"^(?:[\w.]+: )?Traceback \(most recent call last\):$"
    r"|^.*\bray::\S+\(\) \(pid=.*$"
    r"|^The above exception was the direct cause of the following exception:$"
    r"|^During handling of the above exception, another exception occurred:$",
    re.MULTILINE,
)
FRAME_LINES = re.compile(r"\A(?:[ \t]+\S.*\n|\s*\n)*")
MODULE_OF_ERROR = re.compile(r"\A(?:\w+\.)+(?=\w+(?::|$))")
NOT_SCHEDULED = re.compile(
    r"to be scheduled\..*Resources required for each replica: (\{.*?\}), "
    r"total resources available: (\{.*?\})\."
)


@dataclass(frozen=True)
class DeploymentState:
    """Serve's word on one deployment."""

    status: str
    message: str


@dataclass(frozen=True)
class ApplicationState:
    """Serve's word on one application, and on its deployments by name."""

    status: str
    message: str = ""
    deployments: Mapping[str, DeploymentState] = field(default_factory=dict)


def is_up(names: Iterable[str], states: Mapping[str, ApplicationState]) -> bool:
    """Whether every one of the applications answers."""
    return all(name in states and states[name].status == "RUNNING" for name in names)


def find_failure(states: Mapping[str, ApplicationState]) -> str | None:
    """Why the start cannot succeed, for a person; None while it still can."""
    for name, state in states.items():
        if state.status in ("DEPLOY_FAILED", "UNHEALTHY"):
            return f"application {name!r} cannot start: {find_cause(explain_failure(state))}"
        for deployment in state.deployments.values():
            if shortage := find_shortage(deployment.message):
                return f"application {name!r} has no place: {shortage}"
    return None


def explain_failure(state: ApplicationState) -> str:
    """The message that says most: the failed deployment's, or the application's own."""
    messages = [
        deployment.message
        for deployment in state.deployments.values()
        if deployment.status in ("DEPLOY_FAILED", "UNHEALTHY") and deployment.message
    ]
    return messages[0] if messages else state.message


def find_shortage(message: str) -> str | None:
    """What a replica needs and the cluster has not; None where it is merely slow to start."""
    match = NOT_SCHEDULED.search(message)
    if match is None:
        return None
    needed, offered = json.loads(match[1]), json.loads(match[2])
    missing = {key: amount for key, amount in needed.items() if amount > offered.get(key, 0)}
    if not missing:
        return None
    return ", ".join(
        f"a replica needs {amount:g} {key} and {offered.get(key, 0):g} are free"
        for key, amount in missing.items()
    )


def find_cause(message: str) -> str:
    """The errors at the end of Serve's message, the last one raised first, without their frames."""
    preamble, *blocks = FRAMES_FOLLOW.split(COLOUR.sub("", message))
    cause = describe_errors(blocks) if blocks else describe_plain(preamble)
    return cause[:MAX_CAUSE_CHARACTERS] or "Serve gives no reason"


def describe_errors(blocks: Iterable[str]) -> str:
    """The errors of tracebacks; one whose text a later error repeats is left out."""
    errors = [FRAME_LINES.sub("", block + "\n").strip() for block in blocks]
    lines: list[str] = []
    for error in reversed([MODULE_OF_ERROR.sub("", error) for error in errors if error]):
        text = error.partition(": ")[2] or error
        if not any(text in line for line in lines):
            lines.append(error)
    return "\n  caused by ".join(lines)


def describe_plain(message: str) -> str:
    """The cause in a message without a traceback."""
    _, _, error = message.rpartition("Error:\n")
    if error.startswith("ActorDiedError"):
        return "its process died: out of memory, killed, or a crash in native code"
    return error.strip()


@dataclass(frozen=True, slots=True)
class AnsweringModel:
    """A model that has answered; without a chat template it continues texts and no messages."""

    name: str
    takes_messages: bool = True


def format_ready(
    serve_file: ServeFile,
    models: Sequence[AnsweringModel],
    elapsed_s: float,
    logs: str,
    needs_key: bool,
) -> str:
    """What a person sees when every model has answered.

    The curl line works as it stands, but for the key where one is needed: keys are never printed.
    """
    url = serve_file.base_url
    names = ", ".join(model.name for model in models)
    path, question = to_question(models)
    body = json.dumps(question, ensure_ascii=False)
    key = " -H 'authorization: Bearer YOUR-KEY'" if needs_key else ""
    bare = [model.name for model in models if not model.takes_messages]
    told = f"{', '.join(bare)}: without a chat template, for texts alone"
    note = f"  note    {told}\n" if bare else ""
    return (
        f"\nAntiphon is ready after {elapsed_s:.0f} s at {url}/v1\n"
        f"  models  {names}\n{note}"
        f"  try     curl -s {url}{path} -H 'content-type: application/json'{key} "
        f"-d {shlex.quote(body)}\n"
        f"  logs    {logs}\n"
        f"  stop    Ctrl-C\n\n"
    )


def to_question(models: Sequence[AnsweringModel]) -> tuple[str, dict[str, str]]:
    """A route and a body that one of the models answers."""
    for model in models:
        if model.takes_messages:
            return "/v1/responses", {"model": model.name, "input": "Say hello."}
    return "/v1/completions", {"model": models[0].name, "prompt": "Hello, my name is"}
