"""Tools, the choice between them and the form of the answer: asked of the engine, and repeated."""

from dataclasses import replace
from typing import Any

import pytest
from openai import BadRequestError

from engine.types import FunctionTool, GenerateRequest, JsonFormat
from tests.support.bad_requests import OTHER_TOOLS
from tests.support.scripted import CARD, ScriptedEngine, saying
from tests.support.serving import playing, serving
from tests.support.spots import function

Json = dict[str, Any]

ASK: Json = {"model": "scripted", "input": "Weather?"}
PLAIN_CARD = replace(CARD, takes_tools=False, can_constrain=False)
PARAMETERS: Json = {
    "type": "object",
    "properties": {"city": {"type": "string", "<x>": [1.0, -0.0]}},
}
FLAT: Json = {
    "type": "function",
    "name": "weather",
    "description": "Tells it.",
    "parameters": PARAMETERS,
    "strict": True,
}
TOOLS: list[Any] = [FLAT, function(name="time")]
F, TIME = FunctionTool("weather", "Tells it.", PARAMETERS, is_strict=True), FunctionTool("time")


def nest(tool: Json) -> Json:
    """The spelling of Chat Completions."""
    return {"type": "function", "function": {k: v for k, v in tool.items() if k != "type"}}


def allow(*names: str, **changes: Any) -> Json:
    return {"type": "allowed_tools", "tools": [function(name=name) for name in names], **changes}


def nest_allowed(*names: str, **changes: Any) -> Json:
    tools = [nest(function(name=name)) for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"tools": tools, **changes}}


async def ask(sent: Json) -> tuple[GenerateRequest, Json]:
    """What the engine is asked for such a request, and what the response repeats."""
    engine = playing(*saying("Hello"))
    async with serving(engine) as served:
        reply = await served.http.post("/v1/responses", json={**ASK, **sent})
    assert reply.status_code == 200, reply.text
    assert "x-antiphon-ignored" not in reply.headers
    return engine.requests[0], reply.json()


@pytest.mark.parametrize("spell", [dict, nest], ids=["flat", "nested"])
async def test_tools_are_shown_to_the_model_and_repeated_flat(spell: Any) -> None:
    asked, body = await ask({"tools": [spell(tool) for tool in TOOLS]})
    assert (asked.tools, asked.tool_choice, asked.max_tool_calls) == ((F, TIME), "auto", None)
    bare = {"description": None, "parameters": None, "strict": False}
    assert body["tools"] == [FLAT, {"type": "function", "name": "time", **bare}]
    assert list(body["tools"][0]["parameters"]) == ["type", "properties"]


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "n" * 64, "n" * 128])
async def test_a_tool_may_be_called_so(name: str) -> None:
    tool = function(name=name, description=None, parameters=None, strict=None)
    asked, _ = await ask({"tools": [tool]})
    assert asked.tools == (FunctionTool(name),)


async def test_there_may_be_128_tools() -> None:
    asked, _ = await ask({"tools": [function(name=f"f{number}") for number in range(128)]})
    assert len(asked.tools) == 128


ALLOWED = allow("time", mode="auto")
CHOICES: list[tuple[Any, str, tuple[FunctionTool, ...], int | None, Any]] = [
    (None, "auto", (F, TIME), None, "auto"),
    ("auto", "auto", (F, TIME), None, "auto"),
    ("none", "none", (), None, "none"),
    ("required", "required", (F, TIME), None, "required"),
    (function(name="time"), "named", (TIME,), 1, function(name="time")),
    (nest(function(name="time")), "named", (TIME,), 1, function(name="time")),
    (allow("time"), "auto", (TIME,), None, ALLOWED),
    (allow("time", mode=None), "auto", (TIME,), None, ALLOWED),
    (nest_allowed("time", mode="auto"), "auto", (TIME,), None, ALLOWED),
    (
        nest_allowed("time", "weather", mode="required"),
        "required",
        (TIME, F),
        None,
        allow("time", "weather", mode="required"),
    ),
    (allow("time", mode="none"), "none", (), None, allow("time", mode="none")),
]


@pytest.mark.parametrize(("choice", "mode", "tools", "max_calls", "echo"), CHOICES)
async def test_a_choice_narrows_what_the_model_is_shown(
    choice: Any, mode: str, tools: tuple[FunctionTool, ...], max_calls: int | None, echo: Any
) -> None:
    asked, body = await ask({"tools": TOOLS, "tool_choice": choice})
    assert (asked.tool_choice, asked.tools, asked.max_tool_calls) == (mode, tools, max_calls)
    assert body["tool_choice"] == echo
    assert len(body["tools"]) == 2


@pytest.mark.parametrize("tools", [None, []])
@pytest.mark.parametrize("choice", [None, "auto", "none"])
async def test_without_tools_nothing_need_be_chosen(choice: Any, tools: Any) -> None:
    asked, body = await ask({"tools": tools, "tool_choice": choice})
    assert asked.tools == ()
    assert (body["tools"], body["tool_choice"]) == ([], choice or "auto")


@pytest.mark.parametrize(
    ("sent", "limit"),
    [
        ({"max_tool_calls": 3}, 3),
        ({"parallel_tool_calls": True}, None),
        ({"parallel_tool_calls": False}, 1),
        ({"parallel_tool_calls": False, "max_tool_calls": 3}, 1),
        ({"tool_choice": "required", "max_tool_calls": 2}, 2),
        ({"tool_choice": function(name="time"), "max_tool_calls": 2}, 1),
    ],
)
async def test_the_number_of_calls_is_bounded(sent: Json, limit: int | None) -> None:
    asked, body = await ask({"tools": TOOLS, **sent})
    assert asked.max_tool_calls == limit
    assert body["max_tool_calls"] == sent.get("max_tool_calls")
    assert body["parallel_tool_calls"] is sent.get("parallel_tool_calls", True)


FORMATS: list[tuple[Any, JsonFormat | None, Json]] = [
    (None, None, {"type": "text"}),
    ({"type": "text"}, None, {"type": "text"}),
    ({"type": "json_object"}, JsonFormat(), {"type": "json_object"}),
    (
        {"type": "json_schema", "name": "n", "schema": PARAMETERS, "strict": True},
        JsonFormat(PARAMETERS, "n", None, is_strict=True),
        {"name": "n", "description": None, "schema": PARAMETERS, "strict": True},
    ),
    (
        {"type": "json_schema", "json_schema": {"description": "d", "schema": {}, "strict": None}},
        JsonFormat({}, None, "d", is_strict=False),
        {"name": "response", "description": "d", "schema": {}, "strict": False},
    ),
]


@pytest.mark.parametrize(("sent", "asked", "echo"), FORMATS)
async def test_the_form_of_the_answer_is_asked_for_and_repeated_flat(
    sent: Any, asked: JsonFormat | None, echo: Json
) -> None:
    request, body = await ask({"text": {"format": sent}, "tools": TOOLS})
    assert request.output_format == asked
    assert body["text"] == {"format": {"type": "json_schema", **echo}}


@pytest.mark.parametrize("choice", [None, "auto", "none"])
async def test_a_model_without_tools_goes_on_and_says_so(choice: Any) -> None:
    engine = ScriptedEngine(lambda _: saying("Hello"), PLAIN_CARD)
    async with serving(engine) as served:
        sent = {**ASK, "tools": TOOLS, "tool_choice": choice}
        reply = await served.http.post("/v1/responses", json=sent)
    assert (reply.status_code, reply.headers["x-antiphon-ignored"]) == (200, "tools")
    assert engine.requests[0].tools == ()
    assert [tool["name"] for tool in reply.json()["tools"]] == ["weather", "time"]


@pytest.mark.parametrize(
    ("sent", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": function(name="time")}, "tool_choice"),
        ({"tool_choice": allow("time")}, "tool_choice"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format"),
    ],
)
async def test_a_model_is_not_asked_for_what_it_cannot_do(sent: Json, param: str) -> None:
    engine = ScriptedEngine(lambda _: saying("Hello"), PLAIN_CARD)
    async with serving(engine) as served:
        with pytest.raises(BadRequestError) as caught:
            await served.openai.responses.create(**ASK, tools=TOOLS, **sent)
    assert (caught.value.param, caught.value.code) == (param, "unsupported_value")
    assert "This server " in caught.value.message
    assert "the model 'scripted' " in caught.value.message
    assert engine.requests == []


@pytest.mark.parametrize("kind", OTHER_TOOLS)
async def test_a_tool_of_another_type_is_refused_by_type_place_and_setting(kind: str) -> None:
    async with serving(playing()) as served:
        sent = {**ASK, "tools": [*TOOLS, {"type": kind}]}
        reply = await served.http.post("/v1/responses", json=sent)
    assert reply.status_code == 400
    assert reply.json()["error"]["message"] == (
        f"Invalid value for 'tools[2].type': '{kind}' is not served, only 'function' is; the "
        "server's setting `unsupported_tools: ignore` would leave such tools out."
    )


async def test_tools_of_another_type_are_left_out_where_the_server_is_set_so() -> None:
    engine = playing(*saying("Hello"))
    others = [{"type": kind} for kind in OTHER_TOOLS]
    async with serving(engine, drops_other_tools=True) as served:
        sent = {**ASK, "tools": [others[0], FLAT, *others[1:]], "user": "me"}
        reply = await served.http.post("/v1/responses", json=sent)
    assert engine.requests[0].tools == (F,)
    assert reply.json()["tools"] == [FLAT]
    left_out = [f"tools[{number}]" for number in range(len(others) + 1) if number != 1]
    assert reply.headers["x-antiphon-ignored"] == ", ".join([*left_out, "user"])


SEARCH: Json = {"type": "web_search"}


@pytest.mark.parametrize(
    ("sent", "param"),
    [
        ({"tools": [SEARCH], "tool_choice": "required"}, "tool_choice"),
        ({"tools": [SEARCH, FLAT], "tool_choice": SEARCH}, "tool_choice.type"),
        ({"tools": [{"type": "custom", "name": "f"}], "tool_choice": function()}, "tool_choice"),
        (
            {"tools": [SEARCH, FLAT], "tool_choice": {"type": "allowed_tools", "tools": [SEARCH]}},
            "tool_choice.tools[0].type",
        ),
        ({"tools": [SEARCH] * 129}, "tools"),
        ({"tools": [{"type": ["web_search"], "name": "f"}]}, "tools[0].type"),
        ({"tools": {"type": "web_search"}}, "tools"),
    ],
)
async def test_what_is_left_out_cannot_be_chosen(sent: Json, param: str) -> None:
    engine = playing(*saying("Hello"))
    async with serving(engine, drops_other_tools=True) as served:
        reply = await served.http.post("/v1/responses", json={**ASK, **sent})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
    assert engine.requests == []
