"""What Chat Completions and Completions refuse, with the place of the fault and without a model."""

from dataclasses import replace
from typing import Any

import pytest

from deployments.wire.chat_request import ChatCompletionRequest
from deployments.wire.completions_request import CompletionRequest
from engine.errors import (
    ContextLengthError,
    EngineError,
    NoChatTemplateError,
    QueueFullError,
    UnknownTokenError,
)
from tests.support.bad_chat_requests import (
    BAD_CHATS,
    BAD_COMPLETIONS,
    CHAT_NAMES,
    COMPLETION_NAMES,
    GOOD_CHAT,
    GOOD_COMPLETION,
    tool,
)
from tests.support.bad_requests import NOT_FINITE
from tests.support.refusals import Fault, check_bad, send, shorten, sort_by_param
from tests.support.scripted import CARD, ScriptedEngine, saying
from tests.support.serving import playing, serving
from tests.support.wrong_values import find_fields, find_numbers, list_good_numbers

CHAT_FIELDS, COMPLETION_FIELDS = (
    find_fields(model) for model in (ChatCompletionRequest, CompletionRequest)
)
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
CHAT_FAULTS, COMPLETION_FAULTS = sort_by_param(BAD_CHATS), sort_by_param(BAD_COMPLETIONS)
Json = dict[str, Any]


async def refuse(path: str, body: Json, engine: ScriptedEngine | None = None) -> tuple[int, Json]:
    """Status and error of a reply."""
    async with serving(engine or playing(*saying("Hello"))) as served:
        return await send(served.http, path, body)


async def check_refused(path: str, good: Json, param: str, *faults: Fault) -> None:
    """All faults of one place are refused, whether the body asks for a stream or not."""
    engine = playing(*saying("Hello"))
    async with serving(engine) as served:
        for changes, code in faults:
            for is_streamed in (False, True):
                body = {**good, "stream": is_streamed, **changes}
                check_bad(await send(served.http, path, body), changes, param, code)
                assert engine.requests == [], shorten(changes)


@pytest.mark.parametrize("param", CHAT_FAULTS)
async def test_a_bad_chat_is_refused_before_any_model_is_asked(param: str) -> None:
    await check_refused(CHAT, GOOD_CHAT, param, *CHAT_FAULTS[param])


@pytest.mark.parametrize("param", COMPLETION_FAULTS)
async def test_a_bad_completion_is_refused_before_any_model_is_asked(param: str) -> None:
    await check_refused(COMPLETIONS, GOOD_COMPLETION, param, *COMPLETION_FAULTS[param])


@pytest.mark.parametrize(
    ("path", "wrong", "right"),
    [
        *((CHAT, wrong, right) for wrong, right in CHAT_NAMES.items()),
        *((COMPLETIONS, wrong, right) for wrong, right in COMPLETION_NAMES.items()),
    ],
)
async def test_a_wrong_name_is_told_with_the_right_one_even_where_that_is_missing(
    path: str, wrong: str, right: str
) -> None:
    _, error = await refuse(path, {"model": "scripted", wrong: "Hi"})
    assert error["message"].endswith(f"On this route it is called '{right}'.")


@pytest.mark.parametrize(
    ("message", "right"),
    [
        ({"role": "function", "content": "4"}, "'tool' and a tool_call_id"),
        ({"role": "assistant", "content": "", "function_call": {}}, "tool_calls"),
    ],
)
async def test_the_older_way_of_calls_is_refused_with_the_newer_one(
    message: Json, right: str
) -> None:
    _, error = await refuse(CHAT, {**GOOD_CHAT, "messages": [message]})
    assert right in error["message"]


@pytest.mark.parametrize(("path", "name"), [(CHAT, "messages"), (COMPLETIONS, "prompt")])
async def test_what_is_required_is_missed_by_its_name(path: str, name: str) -> None:
    await check_refused(path, {"model": "scripted"}, name, ({}, "missing_required_parameter"))


@pytest.mark.parametrize(
    ("path", "good", "name"),
    [
        *((CHAT, GOOD_CHAT, name) for name in find_numbers(CHAT_FIELDS)),
        *((COMPLETIONS, GOOD_COMPLETION, name) for name in find_numbers(COMPLETION_FIELDS)),
    ],
)
async def test_what_is_no_number_in_json_is_refused_by_its_place(
    path: str, good: Json, name: str
) -> None:
    faults = [({name: float(word)}, "invalid_value") for word in NOT_FINITE]
    await check_refused(path, good, name, *faults)


@pytest.mark.parametrize(
    ("path", "good"),
    [
        *((CHAT, {"logprobs": True, **each}) for each in list_good_numbers(CHAT_FIELDS)),
        *((COMPLETIONS, each) for each in list_good_numbers(COMPLETION_FIELDS)),
    ],
)
async def test_both_ends_of_a_range_and_null_are_taken(path: str, good: Json) -> None:
    body = {**(GOOD_CHAT if path == CHAT else GOOD_COMPLETION), **good}
    async with serving(playing(*saying("Hello"))) as served:
        reply = await served.http.post(path, json=body)
    assert reply.status_code == 200, reply.text


ENGINE_ERRORS: list[tuple[EngineError, int, str | None, str | None]] = [
    (ContextLengthError(2000, 1000), 400, "INPUT", "context_length_exceeded"),
    (UnknownTokenError(9, 5), 400, "INPUT", "unsupported_value"),
    (NoChatTemplateError(), 400, "model", "chat_template_missing"),
    (QueueFullError(3), 429, None, "queue_full"),
]


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(("error", "status", "param", "code"), ENGINE_ERRORS)
@pytest.mark.parametrize(
    ("path", "good", "name"),
    [(CHAT, GOOD_CHAT, "messages"), (COMPLETIONS, GOOD_COMPLETION, "prompt")],
)
async def test_what_the_engine_refuses_names_what_this_route_calls_its_input(
    path: str, good: Json, name: str, error: EngineError, status: int, param: str | None,
    code: str | None, is_streamed: bool,
) -> None:  # fmt: skip
    told = await refuse(path, {**good, "stream": is_streamed}, playing(error))
    expected = name if param == "INPUT" else param
    assert (told[0], told[1]["param"], told[1]["code"]) == (status, expected, code)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_an_unknown_model_is_not_found(path: str) -> None:
    good = GOOD_CHAT if path == CHAT else GOOD_COMPLETION
    status, error = await refuse(path, {**good, "model": "nobody"})
    assert (status, error["param"], error["code"]) == (404, "model", "model_not_found")


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"tools": [tool("f")], "tool_choice": "required"}, "tool_choice"),
        ({"tools": [tool("f")], "tool_choice": tool("f")}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
    ],
)
async def test_what_the_model_cannot_do_is_refused(changes: Json, param: str) -> None:
    card = replace(CARD, takes_tools=False, can_constrain=False)
    engine = ScriptedEngine(lambda _: saying("Hello"), card)
    status, error = await refuse(CHAT, {**GOOD_CHAT, **changes}, engine)
    assert (status, error["param"], error["code"]) == (400, param, "unsupported_value")
    assert "'scripted'" in error["message"]
    assert engine.requests == []


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize("path", ["/chat/completions", "/completions"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_a_method_that_these_routes_do_not_take(prefix: str, path: str, method: str) -> None:
    async with serving(playing()) as served:
        reply = await served.http.request(method, prefix + path)
    assert (reply.status_code, reply.headers["allow"]) == (405, "POST")
