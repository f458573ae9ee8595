"""Every byte of a stream, as it was once read by a person and found right."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from engine.errors import GenerationFailedError
from engine.types import GenerationFinished, GenerationStarted, TextDelta
from tests.support.resources import make_message
from tests.support.scripted import Step, saying
from tests.support.serving import playing, serving

FOLDER = Path(__file__).parent / "transcripts"
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)

# Request, beside model and stream, and what the engine says to it.
CASES: dict[str, tuple[dict[str, Any], list[Step]]] = {
    "text": ({"input": "Greet me."}, saying("Hel", "lo", " you.")),
    "empty_text": ({"input": "Say nothing."}, saying(prompt_tokens=4)),
    "length_stop": (
        {"input": "Count.", "max_output_tokens": 2},
        saying("1, ", "2, ", reason="length"),
    ),
    "cancel": (
        {"input": "Count.", "store": False},
        saying("1, ", "2, ", reason="abort"),
    ),
    "cancel_before_the_first_character": ({"input": "Count."}, saying(reason="abort")),
    "failure_after_the_first_byte": (
        {"input": "Count."},
        [
            GenerationStarted(5),
            TextDelta("1, ", 1),
            GenerationFailedError("The model ran out of memory."),
        ],
    ),
    "multi_byte_characters": (
        {"input": "Ça va ? 🙂", "instructions": "Réponds.\u2028Vite."},
        saying("Ça", " \u2028\u2029\x85", "🙂", "👩\u200d", "👧", "\n\n\r\n", "data: [DONE]\x00"),
    ),
    "all_echoes": (
        {
            "input": [
                {"role": "developer", "content": [{"type": "input_text", "text": "Rhyme."}]},
                {"role": "user", "content": "Hi"},
            ],
            "instructions": "Sing.",
            "temperature": 0,
            "top_p": 0.5,
            "max_output_tokens": 7,
            "max_tool_calls": 3,
            "metadata": {"k": "v"},
            "parallel_tool_calls": False,
            "prompt_cache_key": "key",
            "reasoning": {"effort": "low"},
            "safety_identifier": "safe",
            "service_tier": "flex",
            "text": {"format": {"type": "text"}, "verbosity": "low"},
            "tool_choice": "none",
            "user": "me",
        },
        [
            GenerationStarted(9, cached_tokens=8),
            (TextDelta("La", 2), TextDelta(" la", 3), GenerationFinished("stop", 4)),
        ],
    ),
}
PLAIN = ["text", "empty_text", "multi_byte_characters", "all_echoes"]


def read_transcript(name: str) -> bytes:
    return (FOLDER / f"{name}.sse").read_bytes()


def read_events(transcript: bytes) -> Iterator[dict[str, Any]]:
    """The data of each event of a transcript, after a look at how it is laid out."""
    *events, done, end = transcript.decode().split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    for event in events:
        name, data = event.split("\n")
        value = json.loads(data.removeprefix("data: "))
        assert name == f"event: {value['type']}"
        yield value


@pytest.mark.parametrize("name", CASES)
async def test_a_stream_is_its_transcript_to_the_byte(name: str, is_updating: bool) -> None:
    request, script = CASES[name]
    async with serving(playing(*script)) as served:
        body = {"model": "scripted", "stream": True, **request}
        reply = await served.http.post("/v1/responses", json=body)
    assert reply.status_code == 200
    if is_updating:
        (FOLDER / f"{name}.sse").write_bytes(reply.content)
    assert reply.content == read_transcript(name)


def test_every_transcript_has_its_case() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.sse" for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_openais_own_types_hold_every_event_whole(name: str) -> None:
    for event in read_events(read_transcript(name)):
        held = EVENT.validate_python(event)
        assert held.model_dump(mode="json", exclude_unset=True) == event


@pytest.mark.parametrize("name", CASES)
def test_a_stream_is_numbered_from_0_without_a_gap(name: str) -> None:
    numbers = [event["sequence_number"] for event in read_events(read_transcript(name))]
    assert numbers == list(range(len(numbers)))


def replaying(transcript: bytes) -> AsyncOpenAI:
    """openai's client before a server that plays a transcript, in pieces that cut every line."""

    class Pieces(httpx2.AsyncByteStream):
        async def __aiter__(self) -> Any:
            for start in range(0, len(transcript), 7):
                yield transcript[start : start + 7]

    def reply(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Pieces())

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(reply))
    return AsyncOpenAI(base_url="http://antiphon.test/v1", api_key="none", http_client=client)


@pytest.mark.parametrize("name", CASES)
async def test_openais_accumulator_follows_every_event(name: str) -> None:
    expected = [event["type"] for event in read_events(read_transcript(name))]
    async with (
        replaying(read_transcript(name)) as openai,
        openai.responses.stream(model="scripted", input="") as stream,
    ):
        assert [event.type async for event in stream] == expected


@pytest.mark.parametrize("name", PLAIN)
async def test_openais_accumulator_ends_with_the_final_response(name: str) -> None:
    *_, last = read_events(read_transcript(name))
    async with (
        replaying(read_transcript(name)) as openai,
        openai.responses.stream(model="scripted", input="") as stream,
    ):
        final = await stream.get_final_response()
    assert final.output_text == last["response"]["output_text"]
    assert final.output[0].to_dict() == {
        **make_message(final.output_text),
        "content": [
            {**part, "parsed": None} for part in make_message(final.output_text)["content"]
        ],
    }
