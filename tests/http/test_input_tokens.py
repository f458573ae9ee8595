"""The tokens of an input are counted as its response counts them, and refused alike."""

from dataclasses import replace
from typing import Any

import pytest
from openai import BadRequestError, NotFoundError, RateLimitError

from engine.errors import ContextLengthError, QueueFullError
from engine.types import GenerateRequest, GenerationFinished, GenerationStarted, TextDelta
from tests.support.bad_requests import BAD_REQUESTS, CONTRADICTIONS, GOOD
from tests.support.refusals import check_bad, send, sort_by_param
from tests.support.scripted import CARD, ScriptedEngine, Step
from tests.support.serving import playing, serving
from tests.support.spots import function, message

INPUTS: list[dict[str, Any]] = [
    {"input": "Hi"},
    {"input": "One two three.", "instructions": "Sing."},
    {"input": [message(), {"type": "reasoning", "summary": []}, message(content="Hello there")]},
    {"input": "Hi", "tools": [function(), function(name="g")]},
    {"input": "Hi", "tools": [function(), function(name="g")], "tool_choice": function(name="g")},
    {"input": "Hi", "tools": [function()], "tool_choice": "none"},
    {"input": "Hi", "stream": True, "store": False, "max_output_tokens": 1},
]


def count(request: GenerateRequest) -> list[Step]:
    """A script whose prompt has a token for each character that the model would be shown."""
    shown = [*(message.content for message in request.messages), *(t.name for t in request.tools)]
    started = GenerationStarted(sum(map(len, shown)))
    return [started, TextDelta("Hello", 1), GenerationFinished("stop", 1)]


@pytest.mark.parametrize("body", INPUTS)
@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_the_count_is_that_of_the_responses_usage(prefix: str, body: dict[str, Any]) -> None:
    engine = ScriptedEngine(count)
    sent = {"model": "scripted", **body}
    async with serving(engine) as served:
        reply = await served.http.post(f"{prefix}/responses/input_tokens", json=sent)
        assert engine.requests == []
        made = await served.http.post("/v1/responses", json={**sent, "stream": False})
    assert (reply.status_code, reply.json()) == (
        200,
        {
            "object": "response.input_tokens",
            "input_tokens": made.json()["usage"]["input_tokens"],
        },
    )


async def test_openais_client_reads_it() -> None:
    async with serving(ScriptedEngine(count)) as served:
        counted = await served.openai.responses.input_tokens.count(model="echo", input="Hello")
    assert (counted.object, counted.input_tokens) == ("response.input_tokens", 5)


async def test_what_a_response_refuses_is_not_counted_either() -> None:
    """One fault of each place: the bodies of both routes are checked by the same code."""
    async with serving(playing()) as served:
        for bad in (BAD_REQUESTS, CONTRADICTIONS):
            for param, [(changes, code), *_] in sort_by_param(bad).items():
                told = await send(served.http, "/v1/responses/input_tokens", {**GOOD, **changes})
                check_bad(told, changes, param, code)


async def test_an_unknown_model_is_not_found() -> None:
    async with serving(playing()) as served:
        with pytest.raises(NotFoundError) as caught:
            await served.openai.responses.input_tokens.count(model="gpt-9", input="Hi")
    assert (caught.value.param, caught.value.code) == ("model", "model_not_found")


async def test_the_engines_refusals_are_told_as_ever() -> None:
    async with serving(playing(ContextLengthError(1200, 1000))) as served:
        with pytest.raises(BadRequestError) as too_long:
            await served.openai.responses.input_tokens.count(model="echo", input="Hi")
    assert (too_long.value.param, too_long.value.code) == ("input", "context_length_exceeded")
    async with serving(playing(QueueFullError(64))) as served:
        with pytest.raises(RateLimitError):
            await served.openai.responses.input_tokens.count(model="echo", input="Hi")


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_it_is_asked_by_post(method: str) -> None:
    async with serving(playing()) as served:
        reply = await served.http.request(method, "/v1/responses/input_tokens")
    assert (reply.status_code, reply.headers["allow"]) == (405, "POST")


async def test_what_is_not_counted_or_has_no_effect_is_named_in_a_header() -> None:
    tools = [{"type": "web_search"}, {"type": "function", "name": "f"}]
    sent = {"model": "scripted", "input": "Hi", "user": "me", "tools": tools}
    engine = ScriptedEngine(count, replace(CARD, takes_tools=False))
    async with serving(engine, drops_other_tools=True) as served:
        reply = await served.http.post("/v1/responses/input_tokens", json=sent)
    assert reply.headers["x-antiphon-ignored"] == "tools[0], user, tools"
