"""A stored response comes back as it was."""

import json

import pytest
from pydantic import ValidationError

from deployments.resource.codec import decode_stored, encode_stored
from deployments.resource.response import (
    MessageItem,
    OutputText,
    RequestEcho,
    Response,
    ResponseFailure,
    StoredResponse,
    Usage,
)

PLAIN = StoredResponse(
    Response("resp_1", 1_700_000_000, "in_progress", "scripted"), RequestEcho(1.0, 1.0, True)
)
FULL = StoredResponse(
    Response(
        response_id="resp_1",
        created_at=1_700_000_000,
        status="failed",
        model="org/name:q4",
        output=(
            MessageItem("msg_1", "completed", (OutputText("é 🙂\u2028"), OutputText(""))),
            MessageItem("msg_2", "incomplete", ()),
        ),
        usage=Usage(5, 6, 7, 8),
        completed_at=1_700_000_009,
        failure=ResponseFailure("server_error", "out of memory"),
        incomplete_reason="max_output_tokens",
    ),
    RequestEcho(
        temperature=0.0,
        top_p=0.5,
        is_stored=False,
        instructions="Sing.",
        max_output_tokens=2**63,
        max_tool_calls=1,
        metadata={"": "x"},
        parallel_tool_calls=False,
        prompt_cache_key="k",
        reasoning={"effort": "low", "summary": None},
        safety_identifier="s",
        service_tier="flex",
        tool_choice="none",
        user="u",
        verbosity="high",
    ),
)


@pytest.mark.parametrize("stored", [PLAIN, FULL], ids=["plain", "full"])
def test_a_stored_response_comes_back_as_it_was(stored: StoredResponse) -> None:
    assert decode_stored(encode_stored(stored)) == stored


def test_it_is_kept_as_json() -> None:
    assert json.loads(encode_stored(PLAIN)).keys() == {"response", "echo"}


@pytest.mark.parametrize("body", ["", "{}", "null", '{"response": {}, "echo": {}}'])
def test_a_body_that_is_none_of_ours_is_refused(body: str) -> None:
    with pytest.raises(ValidationError):
        decode_stored(body)
