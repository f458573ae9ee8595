"""A chat completion that is asked for in one piece, and what the engine is asked for it."""

from dataclasses import replace
from typing import Any

import pytest
from openai import InternalServerError

from engine.errors import GenerationFailedError
from engine.types import (
    ChatMessage,
    FunctionTool,
    GenerateRequest,
    GenerationStarted,
    JsonFormat,
    Media,
    SamplingParams,
    TextDelta,
    ToolCall,
)
from tests.golden.chat.cases import CHAT_CASES, TOOLS
from tests.support.bad_chat_requests import GOOD_CHAT, calling, tool
from tests.support.chat_oracles import check_body
from tests.support.scripted import CARD, ScriptedEngine, saying
from tests.support.serving import playing, serving

Json = dict[str, Any]
PATH = "/v1/chat/completions"
USAGE = {
    "prompt_tokens": 5,
    "completion_tokens": 2,
    "total_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0},
}
MESSAGE = {"role": "assistant", "content": "Hello", "refusal": None}
HELLO = {
    "id": "chatcmpl_1",
    "object": "chat.completion",
    "created": 1_700_000_000,
    "model": "scripted",
    "choices": [{"index": 0, "message": MESSAGE, "logprobs": None, "finish_reason": "stop"}],
    "usage": USAGE,
}


async def ask(name: str, reasoning_alias: str | None = "reasoning") -> Json:
    """The one choice of the reply to a golden case."""
    request, script = CHAT_CASES[name]
    async with serving(playing(*script), reasoning_alias=reasoning_alias) as served:
        reply = await served.http.post(PATH, json={"model": "scripted", **request})
    assert reply.status_code == 200
    check_body(reply.json())
    (choice,) = reply.json()["choices"]
    return {**choice, "usage": reply.json()["usage"]}


async def ask_engine(card: Any = CARD, **changes: Any) -> GenerateRequest:
    """What the engine is asked for a request."""
    engine = ScriptedEngine(lambda _: saying("Hello"), card)
    async with serving(engine) as served:
        reply = await served.http.post(PATH, json={**GOOD_CHAT, **changes})
    assert reply.status_code == 200, reply.text
    (asked,) = engine.requests
    return asked


@pytest.mark.parametrize("path", [PATH, "/chat/completions"])
async def test_a_chat_completion_comes_whole(path: str) -> None:
    async with serving(playing(*saying("Hel", "lo"))) as served:
        reply = await served.http.post(path, json=GOOD_CHAT)
    assert (reply.status_code, reply.json()) == (200, HELLO)
    assert "x-antiphon-ignored" not in reply.headers
    check_body(reply.json())


async def test_openais_client_reads_it() -> None:
    async with serving(playing(*saying("Hel", "lo"))) as served:
        completion = await served.openai.chat.completions.create(**GOOD_CHAT)
    assert completion.choices[0].message.content == "Hello"
    assert completion.to_dict() == HELLO


async def test_the_model_is_called_what_the_request_calls_it() -> None:
    async with serving(playing(*saying("Hello"))) as served:
        completion = await served.openai.chat.completions.create(**{**GOOD_CHAT, "model": "echo"})
    assert completion.model == "echo"


async def test_thoughts_come_under_both_names_beside_text_and_calls() -> None:
    choice = await ask("two_calls")
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"] == {
        "role": "assistant",
        "content": "One moment.",
        "refusal": None,
        "reasoning_content": "Both.",
        "reasoning": "Both.",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"place": "Zürich"}'},
            },
            {"id": "call_2", "type": "function", "function": {"name": "clock", "arguments": "{}"}},
        ],
    }
    assert choice["usage"]["prompt_tokens_details"] == {"cached_tokens": 16}
    assert choice["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}


async def test_a_setting_leaves_the_second_name_of_thoughts_out() -> None:
    choice = await ask("reasoning_and_text", reasoning_alias=None)
    assert choice["message"] == {**MESSAGE, "content": "Yes.", "reasoning_content": "Well, well."}


async def test_a_cut_call_is_told_as_far_as_it_came_with_the_reason() -> None:
    choice = await ask("cut_call")
    (call,) = choice["message"].pop("tool_calls")
    assert (choice["finish_reason"], choice["message"]) == ("length", {**MESSAGE, "content": None})
    assert call["function"] == {"name": "weather", "arguments": '{"pla'}


async def test_without_parallel_calls_there_is_one() -> None:
    choice = await ask("one_call_where_two_would_come")
    assert [call["id"] for call in choice["message"]["tool_calls"]] == ["call_1"]
    assert choice["finish_reason"] == "tool_calls"


async def test_an_empty_answer_is_an_empty_text() -> None:
    choice = await ask("empty")
    assert (choice["message"], choice["finish_reason"]) == ({**MESSAGE, "content": ""}, "stop")


async def test_log_probabilities_come_with_each_token() -> None:
    choice = await ask("logprobs")
    content = choice["logprobs"]["content"]
    assert [each["bytes"] for each in content] == [[72, 105], [240, 159], [146, 155], [33]]
    assert [len(each["top_logprobs"]) for each in content] == [2, 2, 2, 2]
    assert choice["logprobs"]["refusal"] is None


async def test_the_engine_is_asked_for_what_was_sent() -> None:
    asked = await ask_engine(
        messages=[
            {"role": "developer", "content": [{"type": "text", "text": "Sing."}]},
            {"role": "user", "content": "Hi"},
        ],
        temperature=0,
        top_p=0.5,
        seed=7,
        logit_bias={"5": -100},
        stop=["a", "b"],
        max_completion_tokens=3,
        max_tokens=9,
        logprobs=True,
        top_logprobs=2,
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
        n=1,
        modalities=["text"],
    )
    assert asked == GenerateRequest(
        "chatcmpl_1",
        (ChatMessage("system", "Sing."), ChatMessage("user", "Hi")),
        SamplingParams(0, 0.5, logit_bias=((5, -100),), seed=7),
        max_tokens=3,
        stop=("a", "b"),
        top_logprobs=2,
        output_format=JsonFormat({}, "n"),
    )


async def test_a_whole_exchange_with_a_tool_reaches_the_engine() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    asked = await ask_engine(
        messages=[
            {"role": "user", "content": "Add."},
            {
                **calling(call),
                "content": None,
                "reasoning": "I add.",
                "reasoning_content": "I add.",
            },
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "4"}]},
        ],
        tools=[tool("f", description="Adds.", strict=True)],
        tool_choice="required",
        parallel_tool_calls=False,
    )
    assert asked.messages == (
        ChatMessage("user", "Add."),
        ChatMessage("assistant", "", "I add.", (ToolCall("c1", "f", "{}"),)),
        ChatMessage("tool", "4", call_id="c1"),
    )
    assert asked.tools == (FunctionTool("f", "Adds.", None, is_strict=True),)
    assert (asked.tool_choice, asked.max_tool_calls) == ("required", 1)


async def test_a_picture_stays_in_its_place_where_the_model_sees() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    text = {"type": "text", "text": "What?"}
    card = replace(CARD, media=("image",))
    asked = await ask_engine(card, messages=[{"role": "user", "content": [picture, text]}])
    picture_inside = Media("image", "data:image/png;base64,AA==")
    assert asked.messages == (ChatMessage("user", (picture_inside, "What?")),)


@pytest.mark.parametrize(
    ("sent", "default", "limit"),
    [
        ({}, None, None),
        ({}, 300, 300),
        ({"max_tokens": 2}, 300, 2),
        ({"max_completion_tokens": 3}, 300, 3),
        ({"max_tokens": 400, "max_completion_tokens": None}, 300, 400),
    ],
)
async def test_the_answers_length_is_the_requests_else_the_models(
    sent: Json, default: int | None, limit: int | None
) -> None:
    card = replace(CARD, default_max_tokens=default)
    assert (await ask_engine(card, **sent)).max_tokens == limit


async def test_a_call_that_is_forced_is_named() -> None:
    asked = await ask_engine(**TOOLS, tool_choice=tool("clock"))
    assert [each.name for each in asked.tools] == ["clock"]
    assert (asked.tool_choice, asked.max_tool_calls) == ("named", 1)


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_what_has_no_effect_is_named_in_a_header(is_streamed: bool) -> None:
    sent = {
        "messages": [{"role": "user", "content": "Hi", "name": "Ann"}],
        "reasoning_effort": "low",
        "service_tier": "flex",
        "store": True,
        "metadata": {"k": "v"},
        "prediction": {"type": "content", "content": "Hello"},
        "max_tokens": 5,
        "max_completion_tokens": 4,
        "user": None,
        "stream": is_streamed,
    }
    async with serving(playing(*saying("Hello"))) as served:
        reply = await served.http.post(PATH, json={**GOOD_CHAT, **sent})
    assert reply.status_code == 200
    assert set(reply.headers["x-antiphon-ignored"].split(", ")) == {
        "messages.name",
        "reasoning_effort",
        "service_tier",
        "store",
        "metadata",
        "prediction",
        "max_tokens",
    }


async def test_tools_that_a_model_cannot_be_shown_are_named_in_the_header() -> None:
    engine = ScriptedEngine(lambda _: saying("Hello"), replace(CARD, takes_tools=False))
    async with serving(engine) as served:
        reply = await served.http.post(PATH, json={**GOOD_CHAT, **TOOLS})
    assert (reply.status_code, reply.headers["x-antiphon-ignored"]) == (200, "tools")
    assert engine.requests[0].tools == ()


async def test_other_tools_are_left_out_where_a_setting_says_so() -> None:
    engine = playing(*saying("Hello"))
    async with serving(engine, drops_other_tools=True) as served:
        tools = [{"type": "web_search"}, tool("f")]
        reply = await served.http.post(PATH, json={**GOOD_CHAT, "tools": tools})
    assert (reply.status_code, reply.headers["x-antiphon-ignored"]) == (200, "tools[0]")
    assert [each.name for each in engine.requests[0].tools] == ["f"]


async def test_a_failure_is_an_error_and_not_half_an_answer() -> None:
    failure = GenerationFailedError("The model ran out of memory.")
    engine = playing(GenerationStarted(5), TextDelta("Hel", 1), failure)
    async with serving(engine) as served:
        with pytest.raises(InternalServerError) as caught:
            await served.openai.chat.completions.create(**GOOD_CHAT)
    assert caught.value.body == {
        "message": "The model ran out of memory.",
        "type": "server_error",
        "param": None,
        "code": "server_error",
    }


async def test_nothing_of_a_chat_is_kept() -> None:
    async with serving(playing(*saying("Hello"))) as served:
        completion = await served.openai.chat.completions.create(**GOOD_CHAT, store=True)
        reply = await served.http.get(f"/v1/responses/{completion.id}")
        cancelled = await served.http.post(f"/v1/responses/{completion.id}/cancel")
    assert (reply.status_code, cancelled.status_code) == (404, 404)
