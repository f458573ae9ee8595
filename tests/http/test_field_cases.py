"""Faults that users of comparable servers met, tried on the whole application in this process.

`tests/manifest/field_cases.yaml` says which test is there for which fault.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import httpx2
import pytest
from openai import AsyncOpenAI, NotFoundError
from starlette.applications import Starlette
from starlette.routing import Route

from engine.errors import (
    ChatTemplateError,
    ContextLengthError,
    EngineStoppedError,
    GenerationFailedError,
    QueueFullError,
)
from engine.types import (
    ChatMessage,
    FunctionTool,
    GenerateRequest,
    GenerationFinished,
    GenerationStarted,
    Media,
    TextDelta,
    ToolCall,
)
from stores.types import Bounds
from tests.support.bad_chat_requests import GOOD_CHAT, GOOD_COMPLETION
from tests.support.bad_requests import GOOD
from tests.support.resources import make_usage
from tests.support.scripted import CARD, ScriptedEngine, Step, calling, saying, thinking
from tests.support.serving import MAX_BODY_BYTES, make_store, playing, serving
from tests.support.spots import call, function, message, output

Json = dict[str, Any]

RESPONSES, CHAT = "/responses", "/chat/completions"
ASK: Json = {**GOOD}
POSTED: dict[str, Json] = {
    RESPONSES: ASK,
    "/responses/input_tokens": ASK,
    CHAT: GOOD_CHAT,
    "/completions": GOOD_COMPLETION,
}
KEY = "sk-of-the-field-cases"
STARTED, STOPPED = GenerationStarted(5), GenerationFinished("stop", 9)
BOTH_SPELLINGS = [prefix + path for path in POSTED for prefix in ("", "/v1")]


# ── tools ────────────────────────────────────────────────────────────────────────────────────────

WEATHER: Json = {
    "name": "weather",
    "description": "Tells it.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
FLAT, NESTED = {"type": "function", **WEATHER}, {"type": "function", "function": WEATHER}
KILOBYTE = ['{"city": "', *["Llanfairpwllgwyngyll" * 5] * 10, '"}']


async def read_arguments(openai: AsyncOpenAI, route: str) -> AsyncIterator[str]:
    """The pieces of a call's arguments, as openai's client reads them from a stream."""
    if route == RESPONSES:
        async for event in await openai.responses.create(**ASK, stream=True):
            if event.type == "response.function_call_arguments.delta":
                yield event.delta
        return
    async for chunk in await openai.chat.completions.create(**GOOD_CHAT, stream=True):
        for piece in chunk.choices[0].delta.tool_calls or []:
            if piece.function and piece.function.arguments:
                yield piece.function.arguments


@pytest.mark.parametrize("route", [RESPONSES, CHAT])
async def test_arguments_are_told_while_the_model_still_writes_them(route: str) -> None:
    may_go_on = asyncio.Event()
    name, first, *others = calling("weather", *KILOBYTE)
    engine = playing(STARTED, name, first, may_go_on, *others, STOPPED)
    pieces: list[str] = []
    async with serving(engine) as served:
        async for piece in read_arguments(served.openai, route):
            pieces.append(piece)
            assert may_go_on.is_set() or engine.closed == []
            may_go_on.set()
    assert pieces == KILOBYTE


async def test_the_same_tools_are_shown_and_called_on_both_routes() -> None:
    engine = playing(STARTED, *calling("weather", '{"city":', '"Rome"}'), STOPPED)
    function_called = {"name": "weather", "arguments": '{"city":"Rome"}'}
    async with serving(engine) as served:
        for tool in (FLAT, NESTED):
            reply = await served.http.post(RESPONSES, json={**ASK, "tools": [tool]})
            (item,) = reply.json()["output"]
            assert {key: item[key] for key in function_called} == function_called
        reply = await served.http.post(CHAT, json={**GOOD_CHAT, "tools": [NESTED]})
    (choice,) = reply.json()["choices"]
    assert [each["function"] for each in choice["message"]["tool_calls"]] == [function_called]
    assert choice["finish_reason"] == "tool_calls"
    shown = FunctionTool("weather", "Tells it.", WEATHER["parameters"])
    assert [asked.tools for asked in engine.requests] == [(shown,)] * 3


def call_thrice(request: GenerateRequest) -> list[Step]:
    """A script that thinks and calls until it has seen three results, and then answers."""
    results = [each.content for each in request.messages if each.role == "tool"]
    if len(results) == 3:
        return saying(f"It is {results[-1]}.")
    return [STARTED, *thinking("Hm."), *calling("weather", "{}", before=1), STOPPED]


async def test_a_streamed_loop_of_calls_and_results_comes_to_its_answer() -> None:
    engine = ScriptedEngine(call_thrice)
    items: list[Any] = [message(content="Weather?")]
    tools: list[Any] = [function(name="weather")]
    async with serving(engine) as served:
        for turn in range(4):
            async with served.openai.responses.stream(
                model="scripted", input=items, tools=tools
            ) as stream:
                _ = [event async for event in stream]
                made = [item.to_dict() for item in (await stream.get_final_response()).output]
            called = [item["call_id"] for item in made if item["type"] == "function_call"]
            results = [output(call_id=each, output=f"{turn} degrees") for each in called]
            items += [*made, *results]
    assert items[-1]["content"][0]["text"] == "It is 2 degrees."
    roles = [each.role for each in engine.requests[-1].messages]
    assert roles == ["user", *["assistant", "tool"] * 3]
    made_ids = [item["id"] for item in items if "id" in item]
    assert len(made_ids) == len(set(made_ids)) == 7
    assert len({item["call_id"] for item in items if "call_id" in item}) == 3


async def test_a_picture_reaches_a_model_alike_from_both_routes() -> None:
    url = "data:image/png;base64,iVBORw0KGgo="
    parts: list[Json] = [
        {"type": "input_image", "image_url": url, "detail": "low"},
        {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
    ]
    engine = ScriptedEngine(lambda _: saying("A cat."), replace(CARD, media=("image",)))
    async with serving(engine) as served:
        for part in parts:
            sent = [{"role": "user", "content": [part, {"type": "text", "text": "What?"}]}]
            asked = {"model": "scripted", "input": sent}
            assert (await served.http.post(RESPONSES, json=asked)).status_code == 200
            asked = {"model": "scripted", "messages": sent}
            assert (await served.http.post(CHAT, json=asked)).status_code == 200
    seen = (ChatMessage("user", (Media("image", url, "low"), "What?")),)
    assert [request.messages for request in engine.requests] == [seen] * 4


# ── items that others made ───────────────────────────────────────────────────────────────────────

THOUGHT: Json = {"type": "reasoning", "summary": []}
SAID = [{"type": "reasoning_text", "text": "Hm."}]
SUMMARY = [{"type": "summary_text", "text": "Hm."}]
USER, THINKS = ChatMessage("user", "Hi"), ChatMessage("assistant", "", reasoning="Hm.")
FOREIGN: dict[str, tuple[list[Json], tuple[ChatMessage, ...]]] = {
    "an id of ours": (
        [message(), {**THOUGHT, "id": f"rs_{'0' * 32}", "content": SAID}],
        (USER, THINKS),
    ),
    "a made-up id": (
        [message(), {**THOUGHT, "id": "__fake_id__", "content": SAID}, message()],
        (USER, THINKS, USER),
    ),
    "alone": ([{**THOUGHT, "content": SAID}], (THINKS,)),
    "a summary": ([message(), {**THOUGHT, "summary": SUMMARY}], (USER, THINKS)),
    "sealed by others": (
        [message(), {**THOUGHT, "content": None, "encrypted_content": "gAAAAABo=="}, message()],
        (USER, USER),
    ),
    "sealed, with its text": (
        [message(), {**THOUGHT, "content": SAID, "encrypted_content": "gAAAAABo=="}],
        (USER, THINKS),
    ),
    "ids on all items": (
        [
            message(type="message", id="msg_of_others", status="completed"),
            call(id="call_a|undefined", status="completed"),
            output(id="", status=None),
        ],
        (
            USER,
            ChatMessage("assistant", "", tool_calls=(ToolCall("c", "f", "{}"),)),
            ChatMessage("tool", "ok", call_id="c"),
        ),
    ),
}


@pytest.mark.parametrize(("items", "turns"), FOREIGN.values(), ids=list(FOREIGN))
async def test_what_others_made_is_taken_as_it_says_by_a_server_that_keeps_nothing(
    items: list[Json], turns: tuple[ChatMessage, ...]
) -> None:
    engine = playing(*saying("Hello"))
    nothing = make_store(Bounds(max_entries=0, max_bytes=0, ttl_s=60))
    async with serving(engine, store=nothing) as served:
        sent = {"model": "scripted", "input": items, "store": False}
        reply = await served.http.post(RESPONSES, json=sent)
    assert reply.status_code == 200, reply.text
    assert engine.requests[0].messages == turns


async def test_an_id_of_the_clients_choosing_selects_nothing() -> None:
    mine = {"id": "resp_mine", "response_id": "resp_mine", "request_id": "resp_mine"}
    async with serving(playing(*saying("Hello"))) as served:
        headers = {"x-request-id": "resp_mine", "idempotency-key": "resp_mine"}
        for number in (1, 2):
            reply = await served.http.post(RESPONSES, json={**ASK, **mine}, headers=headers)
            assert reply.json()["id"] == f"resp_{number}"
        for call_route in (served.openai.responses.retrieve, served.openai.responses.cancel):
            with pytest.raises(NotFoundError):
                await call_route("resp_mine")


# ── errors ───────────────────────────────────────────────────────────────────────────────────────

FAULTS: dict[str, tuple[list[Step], Json, int]] = {
    "no JSON": ([], {"content": b'{"model"'}, 400),
    "no object": ([], {"json": [1]}, 400),
    "nothing given": ([], {"json": {}}, 400),
    "a wrong type": ([], {"json": {"model": 1}}, 400),
    "too large": ([], {"content": b" " * (MAX_BODY_BYTES + 1)}, 413),
    "a form": ([], {"data": {"model": "scripted"}}, 415),
    "no such model": ([], {"model": "gpt-9"}, 404),
    "too long": ([ContextLengthError(1200, 1000)], {}, 400),
    "no such turn": ([ChatTemplateError("No such turn.")], {}, 400),
    "a full queue": ([QueueFullError(3)], {}, 429),
    "a dead engine": ([EngineStoppedError("thread 7 has ended")], {}, 503),
    "a failure": ([GenerationFailedError("Out of memory.")], {}, 500),
    "a fault of ours": ([ValueError("/home/me/secret.py")], {}, 500),
}


@pytest.mark.parametrize(("script", "sent", "status"), FAULTS.values(), ids=list(FAULTS))
async def test_an_error_has_one_shape_on_every_route(
    script: list[Step], sent: Json, status: int
) -> None:
    is_whole = bool({"json", "content", "data"} & sent.keys())
    async with serving(playing(*script)) as served:
        for path, is_streamed in itertools.product(BOTH_SPELLINGS, (False, True)):
            good = POSTED[path.removeprefix("/v1")]
            body = sent if is_whole else {"json": {**good, "stream": is_streamed, **sent}}
            reply = await served.http.post(path, **body)
            assert reply.status_code == status
            check_envelope(reply)


def check_envelope(reply: httpx2.Response) -> None:
    """No framework's own body: one object of four keys, a text where programs want one."""
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["x-request-id"]
    assert reply.json().keys() == {"error"}
    error = reply.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    for name, value in error.items():
        is_optional = name in ("param", "code")
        assert isinstance(value, str) or (is_optional and value is None), name
        assert value != ""
    assert "secret" not in error["message"]


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "OPTIONS", "TRACE", "BREW"])
async def test_an_error_has_that_shape_where_there_is_no_route(method: str) -> None:
    async with serving(playing()) as served:
        for path in ("/", "/docs", "/openapi.json", "/v1/responses/a/b", "/%00", "//", "/v1"):
            reply = await served.http.request(method, path)
            assert reply.status_code == 404
            check_envelope(reply)


@pytest.mark.parametrize("path", BOTH_SPELLINGS)
async def test_an_unknown_model_is_told_by_its_name_on_every_route(path: str) -> None:
    engine = playing(*saying("Hello"))
    async with serving(engine) as served:
        for is_streamed in (False, True):
            good = POSTED[path.removeprefix("/v1")]
            sent = {**good, "model": "gpt-9", "stream": is_streamed}
            reply = await served.http.post(path, json=sent)
            error = reply.json()["error"]
            assert (reply.status_code, error["code"]) == (404, "model_not_found")
            assert error["param"] == "model"
            assert "'gpt-9'" in error["message"]
    assert engine.requests == []


async def test_a_refusal_is_in_the_log_under_the_id_that_the_client_reads(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    async with serving(playing(*saying("Hello"))) as served:
        reply = await served.http.post(RESPONSES, json={**ASK, "temperature": 9})
    told = reply.json()["error"]["message"]
    assert "'temperature'" in told
    refusal = f"request {reply.headers['x-request-id']} is refused: {told}"
    assert refusal in caplog.messages


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["api_key", "api-key", "key", "access_token", "token"])
async def test_a_key_counts_in_its_header_alone(name: str) -> None:
    engine = playing(*saying("Hello"))
    elsewhere: list[Json] = [
        {"params": {name: KEY}},
        {"params": {name: f"Bearer {KEY}"}},
        {"headers": {name: KEY, f"x-{name}": KEY}},
        {"headers": {"cookie": f"{name}={KEY}"}},
    ]
    async with serving(engine, keys=[KEY]) as served:
        del served.http.headers["authorization"]
        for each in elsewhere:
            sent = {**each, "json": {**ASK, name: KEY}}
            assert (await served.http.post(RESPONSES, **sent)).status_code == 401
    assert engine.requests == []


async def test_every_route_that_the_application_has_asks_for_the_key() -> None:
    async with serving(playing(), keys=[KEY]) as served:
        del served.http.headers["authorization"]
        routes = [cast(Route, route) for route in cast(Starlette, served.app).routes]
        assert len(routes) > 10
        for route in routes:
            path = route.path.replace("{response_id}", "resp_1").replace("{model:path}", "scripted")
            for method in route.methods or ():
                reply = await served.http.request(method, path)
                is_open = path == "/health" and method in ("GET", "HEAD")
                assert reply.status_code == (200 if is_open else 401), f"{method} {path}"
        for path in ("/docs", "/redoc", "/openapi.json"):
            assert (await served.http.get(path)).status_code == 401


# ── usage ────────────────────────────────────────────────────────────────────────────────────────

SAID_2: list[Step] = [GenerationStarted(5, cached_tokens=3), TextDelta("1, 2, ", 2)]
ENDS: dict[str, list[Step]] = {
    "completed": [*SAID_2, GenerationFinished("stop", 2)],
    "incomplete": [*SAID_2, GenerationFinished("length", 2)],
    "cancelled": [*SAID_2, GenerationFinished("abort", 2)],
    "failed": [*SAID_2, GenerationFailedError("Out of memory.")],
}


@pytest.mark.parametrize(("status", "script"), ENDS.items(), ids=list(ENDS))
async def test_usage_is_told_however_a_response_ends(status: str, script: list[Step]) -> None:
    async with serving(playing(*script)) as served:
        stream = await served.openai.responses.create(**ASK, stream=True)
        last: Any = [event async for event in stream][-1]
        stored = await served.http.get("/responses/resp_1")
    assert last.response.status == status
    assert last.response.usage.to_dict() == make_usage(5, 2, cached=3)
    assert stored.json()["usage"] == make_usage(5, 2, cached=3)
