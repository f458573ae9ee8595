"""Faults that users of comparable servers met, tried on the whole application in this process.

`tests/manifest/field_cases.yaml` says which test is there for which fault.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError
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
)
from stores.types import StoreBounds
from tests.support.bad_chat_requests import GOOD_CHAT, GOOD_COMPLETION
from tests.support.bad_requests import GOOD
from tests.support.scripted import CARD, ScriptedEngine, Step, calling, saying, thinking
from tests.support.serving import MAX_BODY_BYTES, make_store, playing, serving
from tests.support.spots import call, function, message, output

Json = dict[str, Any]

RESPONSES, CHAT, COMPLETIONS = "/responses", "/chat/completions", "/completions"
INPUT_TOKENS = "/responses/input_tokens"
GENERATING: dict[str, Json] = {RESPONSES: GOOD, CHAT: GOOD_CHAT, COMPLETIONS: GOOD_COMPLETION}
POSTED: dict[str, Json] = {**GENERATING, INPUT_TOKENS: GOOD}
KEY = "sk-of-the-field-cases"
STARTED, STOPPED = GenerationStarted(5), GenerationFinished("stop", 9)
WEATHER: Json = {
    "name": "weather",
    "description": "Tells it.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
NESTED: Json = {"type": "function", "function": WEATHER}
each_prefix = pytest.mark.parametrize("prefix", ["", "/v1"])


# ── tools ────────────────────────────────────────────────────────────────────────────────────────

KILOBYTE = ['{"city": "', *["Llanfairpwllgwyngyll" * 5] * 10, '"}']


async def read_arguments(openai: AsyncOpenAI, route: str) -> Any:
    """The pieces of a call's arguments as openai's client reads them from a stream."""
    if route == RESPONSES:
        async for event in await openai.responses.create(**GOOD, stream=True):
            if event.type == "response.function_call_arguments.delta":
                yield event.delta
        return
    async for chunk in await openai.chat.completions.create(**GOOD_CHAT, stream=True):
        for piece in chunk.choices[0].delta.tool_calls or []:
            if piece.function and piece.function.arguments:
                yield piece.function.arguments


@pytest.mark.parametrize("route", [RESPONSES, CHAT])
async def test_arguments_are_told_while_the_model_still_writes_them(route: str) -> None:
    may_end = asyncio.Event()
    name, first, *others = calling("weather", *KILOBYTE)
    engine = playing(STARTED, name, first, may_end, *others, STOPPED)
    pieces: list[str] = []
    async with serving(engine) as served:
        async for piece in read_arguments(served.openai, route):
            pieces.append(piece)
            if not may_end.is_set():
                assert (pieces, engine.closed) == (KILOBYTE[:1], [])
                may_end.set()
    assert pieces == KILOBYTE


async def test_the_same_tools_are_shown_and_called_on_both_routes() -> None:
    engine = playing(STARTED, *calling("weather", '{"city":', '"Rome"}'), STOPPED)
    async with serving(engine) as served:
        flat = {**GOOD, "tools": [{"type": "function", **WEATHER}]}
        nested = {**GOOD_CHAT, "tools": [NESTED]}
        replies = [
            (await served.http.post(path, json=body)).json()
            for path, body in ((RESPONSES, flat), (RESPONSES, {**flat, **nested_tools()}),
                               (CHAT, nested))
        ]
    assert [asked.tools for asked in engine.requests] == [
        (FunctionTool("weather", "Tells it.", WEATHER["parameters"]),)
    ] * 3
    calls = [reply["output"] for reply in replies[:2]]
    assert [(item["name"], item["arguments"]) for (item,) in calls] == [
        ("weather", '{"city":"Rome"}')
    ] * 2
    (choice,) = replies[2]["choices"]
    (called,) = choice["message"]["tool_calls"]
    assert called["function"] == {"name": "weather", "arguments": '{"city":"Rome"}'}
    assert choice["finish_reason"] == "tool_calls"


def nested_tools() -> Json:
    return {"tools": [NESTED]}


def call_thrice(request: GenerateRequest) -> list[Step]:
    """A script that calls until it has seen three results, and then answers."""
    results = [each.content for each in request.messages if each.role == "tool"]
    if len(results) == 3:
        return saying(f"It is {results[-1]}.")
    city = json.dumps({"city": f"city {len(results)}"})
    return [STARTED, *thinking("Hm."), *calling("weather", city, before=1), STOPPED]


async def test_a_streamed_loop_of_calls_and_results_comes_to_its_answer() -> None:
    engine = ScriptedEngine(call_thrice)
    items: list[Any] = [message(content="Weather?")]
    async with serving(engine) as served:
        for turn in range(4):
            async with served.openai.responses.stream(
                model="scripted", input=items, tools=[function(name="weather", parameters={})]
            ) as stream:
                final = await stream.get_final_response()
            items += [item.to_dict() for item in final.output]
            for item in final.output:
                if item.type == "function_call":
                    items.append(output(call_id=item.call_id, output=f"{turn} degrees"))
    assert final.output_text == "It is 2 degrees."
    assert [each.role for each in engine.requests[-1].messages] == [
        "user", *["assistant", "tool"] * 3
    ]
    assert len({item["id"] for item in items if "id" in item}) == 7
    called = {item["call_id"] for item in items if item.get("type") == "function_call"}
    assert len(called) == 3


# ── items that others made ───────────────────────────────────────────────────────────────────────

THOUGHT: Json = {"type": "reasoning", "summary": []}
SAID = [{"type": "reasoning_text", "text": "Hm."}]
USER, THINKS = ChatMessage("user", "Hi"), ChatMessage("assistant", "", reasoning="Hm.")
FOREIGN: dict[str, tuple[list[Json], tuple[ChatMessage, ...]]] = {
    "an id of ours": (
        [message(), {**THOUGHT, "id": f"rs_{'0' * 32}", "content": SAID}],
        (USER, THINKS),
    ),
    "a made-up id": ([message(), {**THOUGHT, "id": "__fake_id__", "content": SAID}], (USER, THINKS)),
    "alone": ([{**THOUGHT, "content": SAID}], (THINKS,)),
    "at the end": ([message(), message(), {**THOUGHT, "content": SAID}], (USER, USER, THINKS)),
    "a summary": (
        [message(), {**THOUGHT, "summary": [{"type": "summary_text", "text": "Hm."}]}],
        (USER, THINKS),
    ),
    "sealed by others": (
        [message(), {**THOUGHT, "id": "rs_1", "content": None, "encrypted_content": "gAAAA=="}],
        (USER,),
    ),
    "sealed, with its text": (
        [message(), {**THOUGHT, "content": SAID, "encrypted_content": "gAAAA=="}],
        (USER, THINKS),
    ),
    "ids on all items": (
        [
            message(type="message", id="msg_of_others", status="completed"),
            {**call(), "id": "call_a|undefined", "status": "completed"},
            {**output(), "id": "", "status": None},
        ],
        (USER, ChatMessage("assistant", "", tool_calls=(CALLED := None,) and ()), USER),
    ),
}
