"""openai-python's accumulator over a stream of ours, without a server."""

from collections.abc import AsyncIterator

import httpx2
from openai import AsyncOpenAI

from tests.support.transcripts import Event, write_events

PIECE_BYTES = 61  # less than a line of data, and no divisor of anything


def replaying(events: list[Event]) -> AsyncOpenAI:
    """openai's client before a server that plays these events, in pieces that cut its lines."""
    stream = write_events(events)

    class Pieces(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for start in range(0, len(stream), PIECE_BYTES):
                yield stream[start : start + PIECE_BYTES]

    def reply(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Pieces())

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(reply))
    return AsyncOpenAI(base_url="http://antiphon.test/v1", api_key="none", http_client=client)


async def accumulate(events: list[Event]) -> dict[str, str]:
    """The text of each item as openai-python's accumulator has it after the last delta.

    It keeps none of reasoning.
    """
    snapshots: dict[str, str] = {}
    async with (
        replaying(events) as openai,
        openai.responses.stream(model="scripted", input="") as stream,
    ):
        kinds = []
        async for event in stream:
            kinds.append(event.type)
            match event.type:
                case "response.output_text.delta" | "response.function_call_arguments.delta":
                    snapshots[event.item_id] = event.snapshot
    assert kinds == [event["type"] for event in events]
    return snapshots
