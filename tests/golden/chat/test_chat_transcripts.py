"""Every byte of a stream of Chat Completions and Completions, once read by a person."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI

from deployments.sse import COMMENT
from engine.types import GenerationFinished, GenerationStarted, TextDelta
from tests.golden.chat.cases import CHAT_CASES, COMPLETION_CASES, chat
from tests.support.chat_oracles import check_body
from tests.support.chat_streams import join_chat, join_completion, read_broken, read_chunks
from tests.support.scripted import Silence
from tests.support.serving import Served, playing, serving

FOLDER = Path(__file__).parent / "transcripts"
CASES = {
    **{name: ("/v1/chat/completions", case) for name, case in CHAT_CASES.items()},
    **{name: ("/v1/completions", case) for name, case in COMPLETION_CASES.items()},
}
BROKEN = [name for name in CASES if "failure" in name or "stopped" in name]
WHOLE = [name for name in CASES if name not in BROKEN]
CHATS = ["silence", *(name for name in CHAT_CASES if name not in BROKEN)]


async def ask(served: Served, path: str, request: dict[str, Any], **more: Any) -> Any:
    return await served.http.post(path, json={"model": "scripted", **request, **more})


def check_transcript(name: str, stream: bytes, is_updating: bool) -> None:
    if is_updating:
        (FOLDER / f"{name}.sse").write_bytes(stream)
    assert stream == (FOLDER / f"{name}.sse").read_bytes()


@pytest.mark.parametrize("name", CASES)
async def test_a_stream_is_its_transcript_to_the_byte(name: str, is_updating: bool) -> None:
    path, (request, script) = CASES[name]
    async with serving(playing(*script)) as served:
        reply = await ask(served, path, request, stream=True)
    assert reply.status_code == 200
    check_transcript(name, reply.content, is_updating)


@pytest.mark.parametrize(
    ("name", "path", "request_"),
    [
        ("silence", "/v1/chat/completions", chat("Think long.")),
        ("completion_silence", "/v1/completions", {"prompt": "1"}),
    ],
)
async def test_a_silence_is_filled_with_comments(
    name: str, path: str, request_: dict[str, Any], is_updating: bool
) -> None:
    pause, end = Silence(), GenerationFinished("stop", 2)
    engine = playing(GenerationStarted(5), pause, TextDelta("2", 1), pause, pause, end)
    body = {"model": "scripted", "stream": True, **request_}
    stream = b""
    async with (
        serving(engine, heartbeat_s=0.001) as served,
        served.http.stream("POST", path, json=body) as reply,
    ):
        async for chunk in reply.aiter_raw():
            stream += chunk
            if engine.is_silent and chunk == COMMENT:
                await engine.end_silence()
    check_transcript(name, stream, is_updating)


def test_every_transcript_has_its_case() -> None:
    names = {f"{name}.sse" for name in (*CASES, "silence", "completion_silence")}
    assert {path.name for path in FOLDER.iterdir()} == names


@pytest.mark.parametrize("name", WHOLE)
async def test_a_stream_adds_up_to_the_reply_that_is_not_streamed(name: str) -> None:
    path, (request, script) = CASES[name]
    async with serving(playing(*script)) as served:
        whole = (await ask(served, path, request)).json()
    check_body(whole)
    chunks = read_chunks((FOLDER / f"{name}.sse").read_bytes())
    joined = join_completion(chunks) if "completion" in name else join_chat(chunks)
    if "stream_options" not in request:
        joined["usage"] = whole["usage"]
    if "completion" not in name:
        message = whole["choices"][0]["message"]
        message["content"] = message["content"] or None
    assert joined == whole


@pytest.mark.parametrize("name", BROKEN)
async def test_a_stream_that_breaks_off_ends_with_the_error_of_the_other_reply(name: str) -> None:
    path, (request, script) = CASES[name]
    async with serving(playing(*script)) as served:
        reply = await ask(served, path, request)
    chunks, error = read_broken((FOLDER / f"{name}.sse").read_bytes())
    assert (reply.status_code, reply.json()) == (503 if "stopped" in name else 500, error)
    assert not any(choice["finish_reason"] for chunk in chunks for choice in chunk["choices"])


def replaying(transcript: bytes) -> AsyncOpenAI:
    """openai's client before a server that plays a transcript, in pieces that cut every line."""

    class Pieces(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for start in range(0, len(transcript), 7):
                yield transcript[start : start + 7]

    def reply(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Pieces())

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(reply))
    return AsyncOpenAI(base_url="http://antiphon.test/v1", api_key="none", http_client=client)


@pytest.mark.parametrize("name", CHATS)
async def test_openais_accumulator_ends_with_what_the_chunks_add_up_to(name: str) -> None:
    transcript = (FOLDER / f"{name}.sse").read_bytes()
    (expected,) = join_chat(read_chunks(transcript))["choices"]
    async with (
        replaying(transcript) as openai,
        openai.chat.completions.stream(model="scripted", messages=[]) as stream,
    ):
        _ = [event async for event in stream]
        (choice,) = stream.current_completion_snapshot.choices  # the final one refuses `length`
    message, told = choice.message.to_dict(), expected["message"]
    calls = [call.function.to_dict() for call in choice.message.tool_calls or []]
    assert (choice.finish_reason, message["content"] or None) == (
        expected["finish_reason"],
        told["content"],
    )
    assert message.get("reasoning_content") == told.get("reasoning_content")
    assert [(call["name"], call["arguments"]) for call in calls] == [
        (call["function"]["name"], call["function"]["arguments"])
        for call in told.get("tool_calls", [])
    ]
