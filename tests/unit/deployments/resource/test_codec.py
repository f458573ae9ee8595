"""A stored response comes back as it was."""

import json
import math

import pytest
from pydantic import ValidationError

from deployments.resource.codec import decode_stored, encode_stored
from deployments.resource.response import (
    FunctionCallItem,
    MessageItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
    RequestEcho,
    Response,
    ResponseFailure,
    StoredResponse,
    Usage,
)
from deployments.wire.parse import parse_json_object
from engine.types import SampledLogprob, TokenLogprob

# No UTF-8, in part or at all, and all that base64 has a letter for.
TOKENS = [b"", b"\xf0\x9f", b"\xff\xfe\x00", "é".encode(), bytes(range(256))]
LOGPROBS = tuple(
    SampledLogprob(TokenLogprob(token, -0.1), (TokenLogprob(token, -0.1), TokenLogprob(b"", -9.0)))
    for token in TOKENS
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
            ReasoningItem("rs_1", "completed", (ReasoningText("Hm\n"),)),
            FunctionCallItem("fc_1", "completed", "call_1", "find", '{"q":'),
            MessageItem("msg_2", "incomplete", (OutputText("é", LOGPROBS),)),
            MessageItem("msg_3", "in_progress", ()),
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
        presence_penalty=-2.0,
        frequency_penalty=2.0,
        instructions="Sing.",
        max_output_tokens=2**63,
        max_tool_calls=1,
        metadata={"": "x"},
        parallel_tool_calls=False,
        prompt_cache_key="k",
        reasoning={"effort": "low", "summary": None},
        safety_identifier="s",
        service_tier="flex",
        text_format={"type": "json_schema", "schema": {"enum": [None, 1.5, True]}},
        tool_choice={"type": "function", "name": "find"},
        tools=({"type": "function", "name": "find", "parameters": None},),
        top_logprobs=20,
        user="u",
        verbosity="high",
    ),
)


@pytest.mark.parametrize("stored", [PLAIN, FULL], ids=["plain", "full"])
def test_a_stored_response_comes_back_as_it_was(stored: StoredResponse) -> None:
    assert decode_stored(encode_stored(stored)) == stored


@pytest.mark.parametrize("value", [-math.inf, math.inf, 0.0, -1e-300, -1e300])
def test_any_log_probability_can_be_kept(value: float) -> None:
    logprobs = (SampledLogprob(TokenLogprob(b"x", value), ()),)
    kept = StoredResponse(
        Response(
            "resp_1",
            1_700_000_000,
            "completed",
            "scripted",
            (MessageItem("msg_1", "completed", (OutputText("x", logprobs),)),),
        ),
        RequestEcho(1.0, 1.0, True),
    )
    assert decode_stored(encode_stored(kept)) == kept


def test_nonsense_of_a_model_can_be_kept_too() -> None:
    logprobs = (SampledLogprob(TokenLogprob(b"x", math.nan), ()),)
    response = Response(
        "resp_1",
        1_700_000_000,
        "completed",
        "scripted",
        (MessageItem("msg_1", "completed", (OutputText("x", logprobs),)),),
    )
    body = encode_stored(StoredResponse(response, RequestEcho(1.0, 1.0, True)))
    (item,) = decode_stored(body).response.output
    assert isinstance(item, MessageItem)
    assert math.isnan(item.content[0].logprobs[0].sampled.logprob)


def test_it_is_kept_as_json() -> None:
    assert json.loads(encode_stored(PLAIN)).keys() == {"response", "echo"}


def test_what_a_request_may_nest_can_be_kept() -> None:
    # The deepest that the parser of requests takes, two levels of which are the list of tools.
    schema = json.loads('{"a":' * 197 + "{}" + "}" * 197)
    echo = RequestEcho(1.0, 1.0, True, tools=({"parameters": schema},), text_format=schema)
    assert parse_json_object(json.dumps({"tools": echo.tools}).encode())
    stored = StoredResponse(PLAIN.response, echo)
    assert decode_stored(encode_stored(stored)) == stored


@pytest.mark.parametrize(
    "body",
    ["", "{}", "null", '{"response": {}, "echo": {}}', encode_stored(PLAIN).replace("store", "x")],
)
def test_a_body_that_is_none_of_ours_is_refused(body: str) -> None:
    with pytest.raises(ValidationError):
        decode_stored(body)
