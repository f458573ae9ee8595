"""llm-comply, a compliance suite of Open Responses, against the real cluster, check by check."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import llm_comply
import pytest
from llm_comply import http, runner, schema
from llm_comply.config import ComplianceConfig
from llm_comply.result import TestStatus as Status
from llm_comply.tests.open_responses import OPEN_RESPONSES_TESTS

from tests.support.oracles import check_event, check_resource
from tests.support.replay import check_stream
from tests.support.server import Server

SPEC = Path(llm_comply.__file__).parent / "specs" / "openresponses.json"
MODEL = "smollm2-135m"
CASES = {case.id: case for case in OPEN_RESPONSES_TESTS}

# Checks that we fail or that leave us out, and why. One that passes has to go from here.
LEFT_OUT = {
    "tool-calling": "the template of the model takes no tools",
    "image-input": "the model sees no images",
    "reasoning-summary": "asked of models with the names of OpenAI's alone",
}

# It looks up references in a way that jsonschema would rather not see any more.
pytestmark = pytest.mark.filterwarnings("ignore:jsonschema.RefResolver:DeprecationWarning")


@pytest.fixture(scope="module")
def comply(server: Server) -> Iterator[runner.TestRunner]:
    config = ComplianceConfig(
        f"{server.url}/v1",
        server.key,
        MODEL,
        timeout=120,
        verbose=True,  # keeps what it read
    )
    yield runner.TestRunner(config, [], schema.SpecLoader(str(SPEC)))
    http.close_client()


def run(comply: runner.TestRunner, name: str) -> Any:
    """One check, at temperature 0: a model this small must not lose its way by chance."""
    case = CASES[name]

    def build(config: ComplianceConfig) -> dict[str, Any]:
        return {**case.build_request(config), "temperature": 0}

    return comply.run_one(replace(case, build_request=build))


@pytest.mark.parametrize("name", [name for name in CASES if name not in LEFT_OUT])
def test_a_check_of_the_compliance_suite_passes(comply: runner.TestRunner, name: str) -> None:
    result = run(comply, name)
    assert (result.status, result.errors) == (Status.PASSED, [])
    events = [event["data"] for event in result.stream_events or [] if event["type"] != "[DONE]"]
    if events:
        check_stream(events)
    for event in events:
        check_event(event)
    if "error" not in name and "compact" not in name:  # which is accepted as a 404 too
        check_resource(result.response)


@pytest.mark.parametrize("name", LEFT_OUT)
def test_a_check_that_is_left_out_would_not_pass(comply: runner.TestRunner, name: str) -> None:
    assert run(comply, name).status is not Status.PASSED
