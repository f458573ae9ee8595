"""A chat completion that is read as it grows, by openai's client and as bytes."""

import json
from typing import Any

import pytest
from openai import APIError
from openai.types.chat import ChatCompletionChunk

from deployments.sse import COMMENT, DONE
from engine.errors import GenerationFailedError
from engine.types import GenerationStarted, TextDelta
from tests.golden.chat.cases import CHAT_CASES, TWO_CALLS
from tests.support.bad_chat_requests import GOOD_CHAT
from tests.support.scripted import Silence, Step, saying
from tests.support.serving import playing, serving

Json = dict[str, Any]
PATH = "/v1/chat/completions"
STREAMED = {**GOOD_CHAT, "stream": True}


@pytest.mark.parametrize("path", [PATH, "/chat/completions"])
async def test_a_stream_has_data_lines_alone_until_done(path: str) -> None:
    async with serving(playing(*saying("Hel", "lo"))) as served:
        reply = await served.http.post(path, json=STREAMED)
    lines = reply.text.split("\n")
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert {line.partition(":")[0] for line in lines} == {"data", ""}
    assert lines[-4:] == ["", "data: [DONE]", "", ""]


async def test_each_chunk_is_sent_as_soon_as_it_is_there() -> None:
    async with (
        serving(playing(*saying("Hel", "lo"))) as served,
        served.http.stream("POST", PATH, json=STREAMED) as reply,
    ):
        *chunks, done = [chunk async for chunk in reply.aiter_raw()]
    assert done == DONE
    deltas = [json.loads(chunk.split(b"\n")[0][6:])["choices"][0]["delta"] for chunk in chunks]
    assert deltas == [
        {"role": "assistant", "content": ""},
        {"content": "Hel"},
        {"content": "lo"},
        {},
    ]


async def test_openais_client_reads_every_chunk() -> None:
    async with serving(playing(*saying("Hel", "lo"))) as served:
        stream = await served.openai.chat.completions.create(**GOOD_CHAT, stream=True)
        chunks: list[ChatCompletionChunk] = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello"
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None, None, None, "stop"]
    assert {(chunk.id, chunk.created, chunk.model) for chunk in chunks} == {
        ("chatcmpl_1", 1_700_000_000, "scripted")
    }


async def test_usage_comes_last_and_only_where_it_is_asked_for() -> None:
    async with serving(playing(*saying("Hel", "lo"))) as served:
        create = served.openai.chat.completions.create
        options: Any = {"include_usage": True}
        stream = await create(**GOOD_CHAT, stream=True, stream_options=options)
        *others, last = [chunk async for chunk in stream]
        silent = [chunk async for chunk in await create(**GOOD_CHAT, stream=True)]
    assert last.choices == []
    assert last.usage is not None
    assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (5, 2)
    assert all("usage" in each.to_dict() and each.usage is None for each in others)
    assert not any("usage" in each.to_dict() for each in silent)


async def test_openais_accumulator_has_the_whole_message_at_the_end() -> None:
    request, script = CHAT_CASES["two_calls"]
    async with serving(playing(*script)) as served:
        create = served.openai.chat.completions
        whole = await create.create(model="scripted", **request)
        async with create.stream(model="scripted", **request) as stream:
            kinds = [event.type async for event in stream]
            final = await stream.get_final_completion()
    ours, theirs = whole.choices[0], final.choices[0]
    assert kinds.count("tool_calls.function.arguments.done") == 2
    assert theirs.message.content == ours.message.content
    assert theirs.message.to_dict()["reasoning_content"] == "Both."
    assert theirs.finish_reason == ours.finish_reason == "tool_calls"
    assert final.usage == whole.usage
    calls = [call.function for call in theirs.message.tool_calls or []]
    assert [(call.name, call.arguments) for call in calls] == [
        ("weather", '{"place": "Zürich"}'),
        ("clock", "{}"),
    ]


async def test_openais_accumulator_has_the_log_probabilities() -> None:
    request, script = CHAT_CASES["logprobs"]
    async with serving(playing(*script)) as served:
        whole = await served.openai.chat.completions.create(model="scripted", **request)
        async with served.openai.chat.completions.stream(model="scripted", **request) as stream:
            final = await stream.get_final_completion()
    assert final.choices[0].logprobs is not None
    assert final.choices[0].logprobs == whole.choices[0].logprobs


async def test_a_failure_after_the_first_byte_reaches_openais_client_as_an_error() -> None:
    failure = GenerationFailedError("The model ran out of memory.")
    async with serving(playing(GenerationStarted(5), TextDelta("1", 1), failure)) as served:
        stream = await served.openai.chat.completions.create(**GOOD_CHAT, stream=True)
        with pytest.raises(APIError, match="ran out of memory"):
            _ = [chunk async for chunk in stream]


async def test_a_fault_that_nobody_expected_is_told_without_its_cause() -> None:
    fault = ValueError("/home/me/secret.py")
    async with serving(playing(GenerationStarted(5), TextDelta("1", 1), fault)) as served:
        reply = await served.http.post(PATH, json=STREAMED)
    assert "secret" not in reply.text
    assert reply.text.endswith(
        'data: {"error":{"message":"The server had an internal error.",'
        '"type":"server_error","param":null,"code":"server_error"}}\n\n'
    )


async def test_each_silence_of_a_heartbeats_length_has_a_comment() -> None:
    script: list[Step] = [GenerationStarted(5), Silence(), Silence(), *saying("Hi")[1:]]
    engine, chunks = playing(*script), list[bytes]()
    async with (
        serving(engine, heartbeat_s=0.001) as served,
        served.http.stream("POST", PATH, json=STREAMED) as reply,
    ):
        async for chunk in reply.aiter_raw():
            chunks.append(chunk)
            if chunk == COMMENT:
                await engine.end_silence()
    assert [chunk == COMMENT for chunk in chunks] == [False, True, True, *[False] * 3]


async def test_two_streams_at_once_do_not_mix() -> None:
    async with serving(playing(*TWO_CALLS)) as served:
        create = served.openai.chat.completions.create
        first = await create(**GOOD_CHAT, stream=True)
        async with await create(**GOOD_CHAT, stream=True) as second:
            pairs = [(a, await anext(second)) async for a in first]
    assert {(a.id, b.id) for a, b in pairs} == {("chatcmpl_1", "chatcmpl_2")}
    for a, b in pairs:
        assert a.choices[0].delta.content == b.choices[0].delta.content
