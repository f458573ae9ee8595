"""Items of an input over HTTP: what the engine is asked, and what is refused by its place."""

from dataclasses import replace
from typing import Any

import pytest

from engine.types import ChatMessage, GenerationFinished, GenerationStarted, Media, ToolCall
from tests.support.asking import CUT_IN_A_CALL, THINKS_AND_CALLS
from tests.support.scripted import CARD, ScriptedEngine, Step, saying, thinking
from tests.support.serving import playing, serving
from tests.support.spots import call, function, image, message, output

Json = dict[str, Any]

PNG = "data:image/png;base64,iVBORw0KGgo="
SEEING = replace(CARD, media=("image",))
MOVED = "[Image output attached in the next message]"

# The array of the requirements, as it stands there.
ALL_ITEMS: list[Json] = [
    {"type": "message", "role": "user", "content": "hello"},
    {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "sys"}]},
    {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_image", "image_url": PNG, "detail": "high"}],
    },
    {"type": "function_call", "call_id": "call_abc", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_abc", "output": "ok"},
    {
        "type": "function_call_output",
        "call_id": "call_img",
        "output": [
            {"type": "input_text", "text": "captured"},
            {"type": "input_image", "image_url": PNG},
        ],
    },
    {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "..."}]},
]
ALL_MESSAGES = (
    ChatMessage("user", "hello"),
    ChatMessage("system", "sys"),
    ChatMessage("user", (Media("image", PNG, "high"),)),
    ChatMessage("assistant", "", tool_calls=(ToolCall("call_abc", "f", "{}"),)),
    ChatMessage("tool", "ok", call_id="call_abc"),
    ChatMessage("tool", f"captured\n{MOVED}", call_id="call_img"),
    ChatMessage("user", (Media("image", PNG),)),
    ChatMessage("assistant", "", reasoning="..."),
)


async def test_every_kind_of_item_reaches_a_model_that_sees() -> None:
    engine = ScriptedEngine(lambda _: saying("Hello"), SEEING)
    async with serving(engine) as served:
        sent = {"model": "scripted", "input": ALL_ITEMS}
        reply = await served.http.post("/v1/responses", json=sent)
    assert reply.status_code == 200
    assert engine.requests[0].messages == ALL_MESSAGES


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("items", "param"),
    [
        ([message(), message(content=[image()])], "input[1].content[0]"),
        ([message(), call(), output(output=["?", image()])], "input[2].output[0]"),
        ([message(), call(), output(output=[{"type": "x"}, image()])], "input[2].output[1]"),
        ([message(role="assistant", content=[image()])], "input[0].content[0]"),
        ([message(), message(role="developer", content=[image()])], "input[1].content[0]"),
    ],
)
async def test_a_picture_is_refused_by_its_place_where_the_model_sees_none(
    items: list[Json], param: str, is_streamed: bool
) -> None:
    engine = playing(*saying("Hello"))
    async with serving(engine) as served:
        sent = {"model": "scripted", "input": items, "stream": is_streamed}
        reply = await served.http.post("/v1/responses", json=sent)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
    assert engine.requests == []


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"type": "video_url", "video_url": "https://x/y.mp4"}, "videos"),
        ({"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}, "audio"),
    ],
)
async def test_a_model_that_sees_need_not_watch_or_listen(part: Json, kind: str) -> None:
    async with serving(ScriptedEngine(lambda _: saying("Hello"), SEEING)) as served:
        sent = {"model": "scripted", "input": [message(content=[image(), part])]}
        reply = await served.http.post("/v1/responses", json=sent)
    assert reply.json()["error"] == {
        "message": f"The model 'scripted' takes no {kind}.",
        "type": "invalid_request_error",
        "param": "input[0].content[1]",
        "code": "unsupported_value",
    }


async def test_a_picture_inside_a_text_is_just_text() -> None:
    engine = playing(*saying("Hello"))
    async with serving(engine) as served:
        sent = {"model": "scripted", "input": [call(), output(output=PNG)]}
        await served.http.post("/v1/responses", json=sent)
    assert engine.requests[0].messages[1] == ChatMessage("tool", PNG, call_id="c")


@pytest.mark.parametrize(
    "script",
    [
        saying("Hello"),
        saying(),
        saying("Hel", reason="length"),
        THINKS_AND_CALLS,
        CUT_IN_A_CALL,
        [GenerationStarted(5), *thinking("Hm"), GenerationFinished("length", 1)],
    ],
    ids=["text", "nothing", "cut", "thoughts and calls", "cut in a call", "thoughts"],
)
async def test_an_output_can_be_sent_back_as_it_is(script: list[Step]) -> None:
    engine = playing(*script)
    ask: Json = {"model": "scripted", "tools": [function()]}
    async with serving(engine) as served:
        first = await served.openai.responses.create(**ask, input="Go.")
        raw = await served.http.get("/v1/responses/resp_1")
        for items in (first.output, raw.json()["output"]):
            back: list[Any] = [*items, message()]
            again = await served.openai.responses.create(**ask, input=back)
            assert again.status in ("completed", "incomplete")
    assert engine.requests[1].messages == engine.requests[2].messages
    assert len(engine.requests[1].messages) >= 2


async def test_thoughts_and_calls_come_back_in_their_order() -> None:
    engine = playing(*THINKS_AND_CALLS)
    ask: Json = {"model": "scripted", "tools": [function()]}
    async with serving(engine) as served:
        first = await served.openai.responses.create(**ask, input="Go.")
        ids = [item.call_id for item in first.output if item.type == "function_call"]
        outputs = [output(call_id=call_id, output=call_id) for call_id in ids]
        back: list[Any] = [message(), *first.output, *outputs]
        await served.openai.responses.create(**ask, input=back)
    rome, now = ToolCall(ids[0], "f", '{"city":"Rome"}'), ToolCall(ids[1], "f", "{}")
    assert engine.requests[1].messages == (
        ChatMessage("user", "Hi"),
        ChatMessage("assistant", "", "Rain?", (rome,)),
        ChatMessage("assistant", "", "Time?", (now,)),
        ChatMessage("tool", ids[0], call_id=ids[0]),
        ChatMessage("tool", ids[1], call_id=ids[1]),
    )


async def test_as_many_items_as_there_may_be_are_read() -> None:
    engine = playing(*saying("Hello"))
    async with serving(engine) as served:
        sent = {"model": "scripted", "input": [message()] * 10_000}
        reply = await served.http.post("/v1/responses", json=sent)
    assert (reply.status_code, len(engine.requests[0].messages)) == (200, 10_000)
