"""A response that is stopped by another request."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from openai import AsyncOpenAI, NotFoundError
from openai.types.responses import Response, ResponseStreamEvent

from engine.types import GenerationStarted, TextDelta
from tests.support.resources import (
    make_call,
    make_message,
    make_reasoning,
    make_resource,
    make_usage,
)
from tests.support.scripted import Step, calling, saying, thinking
from tests.support.serving import Served, playing, serving

ASK: dict[str, Any] = {"model": "scripted", "input": "Count."}
CANCELLED = make_resource(
    status="cancelled",
    output=[make_message("1, 2, ", status="incomplete")],
    output_text="1, 2, ",
    usage=make_usage(5, 2),
)


def counting_for_ever() -> list[Step]:
    return [GenerationStarted(5), TextDelta("1, ", 1), TextDelta("2, ", 2), asyncio.Event()]


@asynccontextmanager
async def running(**changes: Any) -> AsyncIterator[tuple[Served, "asyncio.Task[Response]"]]:
    """A response `resp_1` that runs, and the task of the client who waits for the whole."""
    engine = playing(*counting_for_ever())
    async with serving(engine) as served:
        waiting = asyncio.create_task(served.openai.responses.create(**{**ASK, **changes}))
        await engine.held.wait()
        yield served, waiting


async def stream_and_cancel(openai: AsyncOpenAI, **changes: Any) -> list[ResponseStreamEvent]:
    """The events of a stream that another request cancels after the second delta."""
    cancelling: asyncio.Task[Response] | None = None
    events = []
    stream = await openai.responses.create(**{**ASK, **changes}, stream=True)
    async for event in stream:
        events.append(event)
        if event.type == "response.output_text.delta" and event.delta == "2, ":
            cancelling = asyncio.create_task(openai.responses.cancel("resp_1"))
    assert cancelling is not None
    assert (await cancelling).status == "cancelled"
    return events


async def test_a_stream_that_is_cancelled_keeps_its_text_and_ends_as_incomplete() -> None:
    async with serving(playing(*counting_for_ever())) as served:
        events = await stream_and_cancel(served.openai)
        stored = await served.http.get("/v1/responses/resp_1")
    assert [event.type for event in events[-4:]] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ]
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.to_dict() == stored.json() == CANCELLED


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_whoever_waits_for_the_whole_gets_the_cancelled_response(prefix: str) -> None:
    async with running() as (served, waiting):
        reply = await served.http.post(f"{prefix}/responses/resp_1/cancel")
        response = await waiting
        stored = await served.http.get("/v1/responses/resp_1")
    assert reply.status_code == 200
    assert reply.json() == response.to_dict() == stored.json() == CANCELLED


async def test_many_may_cancel_one_response() -> None:
    async with running() as (served, waiting):
        cancels = (served.openai.responses.cancel("resp_1") for _ in range(3))
        responses = await asyncio.gather(waiting, *cancels)
    assert [response.to_dict() for response in responses] == [CANCELLED] * 4


async def test_a_response_that_is_not_stored_can_be_cancelled_while_it_runs() -> None:
    async with running(store=False) as (served, waiting):
        with pytest.raises(NotFoundError):
            await served.openai.responses.retrieve("resp_1")
        cancelled = await served.openai.responses.cancel("resp_1")
        assert (await waiting).to_dict() == cancelled.to_dict()
        with pytest.raises(NotFoundError):
            await served.openai.responses.cancel("resp_1")
    assert cancelled.to_dict() == {**CANCELLED, "store": False}


async def test_a_stream_that_is_not_stored_can_be_cancelled_too() -> None:
    async with serving(playing(*counting_for_ever())) as served:
        *_, last = await stream_and_cancel(served.openai, store=False)
    assert last.type == "response.incomplete"
    assert last.response.to_dict() == {**CANCELLED, "store": False}


@pytest.mark.parametrize("reason", ["stop", "length"])
async def test_a_response_that_has_ended_is_returned_unchanged(reason: Any) -> None:
    async with serving(playing(*saying("1, ", "2, ", reason=reason))) as served:
        ended = await served.openai.responses.create(**ASK)
        assert await served.openai.responses.cancel("resp_1") == ended
        assert await served.openai.responses.retrieve("resp_1") == ended


async def test_a_cancelled_response_can_be_cancelled_again() -> None:
    async with running() as (served, waiting):
        first = await served.openai.responses.cancel("resp_1")
        await waiting
        assert await served.openai.responses.cancel("resp_1") == first


async def test_a_running_response_that_is_deleted_stops_and_is_gone() -> None:
    async with running() as (served, waiting):
        await served.openai.responses.delete("resp_1")
        assert (await waiting).to_dict() == CANCELLED
        with pytest.raises(NotFoundError):
            await served.openai.responses.retrieve("resp_1")


STAGES: dict[str, tuple[list[Step], dict[str, Any]]] = {
    "before any output": ([], {"usage": make_usage(5, 0)}),
    "in reasoning": (
        [*thinking("Hm")],
        {
            "output": [make_reasoning("Hm", status="incomplete")],
            "usage": make_usage(5, 1, reasoning=1),
        },
    ),
    "in a call": (
        [*calling("find", '{"q":')[:-1]],
        {"output": [make_call("find", '{"q":', status="incomplete")], "usage": make_usage(5, 2)},
    ),
    "after a call": (
        [*calling("now", "{}")],
        {"output": [make_call("now", "{}")], "usage": make_usage(5, 3)},
    ),
    "in a second call": (
        [*calling("now", "{}"), *calling("find", before=3)[:-1]],
        {
            "output": [make_call("now", "{}"), make_call("find", "", 2, status="incomplete")],
            "usage": make_usage(5, 4),
        },
    ),
}


@pytest.mark.parametrize(("before", "changes"), STAGES.values(), ids=list(STAGES))
async def test_a_response_can_be_cancelled_at_any_stage(
    before: list[Step], changes: dict[str, Any]
) -> None:
    engine = playing(GenerationStarted(5), *before, asyncio.Event())
    async with serving(engine) as served:
        reading = asyncio.create_task(read_last(served))
        await engine.held.wait()
        cancelled = await served.openai.responses.cancel("resp_1")
        last = await reading
        stored = await served.http.get("/v1/responses/resp_1")
    expected = make_resource(status="cancelled", **changes)
    assert last.type == "response.incomplete"
    assert last.response.to_dict() == cancelled.to_dict() == stored.json() == expected


async def read_last(served: Served) -> ResponseStreamEvent:
    stream = await served.openai.responses.create(**ASK, stream=True)
    last: ResponseStreamEvent = [event async for event in stream][-1]
    return last
