"""A stream in which nothing happens for long still shows that it lives."""

import asyncio
from typing import Any

import pytest
from openai.types.responses import ResponseStreamEvent

from engine.errors import GenerationFailedError
from engine.types import GenerationFinished, GenerationStarted, TextDelta
from tests.support.exchange import HangUp
from tests.support.observed import ObservedStore
from tests.support.resources import make_call, make_message, make_reasoning, make_resource
from tests.support.scripted import ScriptedEngine, Silence, Step, calling, thinking
from tests.support.serving import Served, playing, serving
from tests.support.tasks import tasks_left

ASK: dict[str, Any] = {"model": "scripted", "input": "Greet me."}
SOON_S = 0.001
STARTED, PAUSE, END = GenerationStarted(5), Silence(), GenerationFinished("stop", 9)
STAGES: dict[str, tuple[list[Step], dict[str, Any]]] = {
    "before any output": ([], {}),
    "in reasoning": (
        [*thinking("Hm")],
        {"output": [make_reasoning("Hm", status="in_progress")]},
    ),
    "in a text": (
        [TextDelta("Hel", 1)],
        {"output": [make_message("Hel", status="in_progress")], "output_text": "Hel"},
    ),
    "in a call": (
        [*calling("find", '{"q":')[:-1]],
        {"output": [make_call("find", '{"q":', status="in_progress")]},
    ),
    "between items": ([*calling("now", "{}")], {"output": [make_call("now", "{}")]}),
}


async def read_all(served: Served, engine: ScriptedEngine) -> list[ResponseStreamEvent]:
    """All events of a stream whose silences last for one heartbeat each."""
    events: list[ResponseStreamEvent] = []
    stream = await served.openai.responses.create(**ASK, stream=True)
    async for event in stream:
        events.append(event)
        if engine.is_silent and event.type == "response.in_progress":
            await engine.end_silence()
    return events


def list_heartbeats(events: list[ResponseStreamEvent]) -> list[dict[str, Any]]:
    beats = [event for event in events if event.type == "response.in_progress"]
    return [beat.response.to_dict() for beat in beats[1:]]


@pytest.mark.parametrize(("before", "changes"), STAGES.values(), ids=list(STAGES))
async def test_a_silence_is_filled_with_the_response_as_it_stands(
    before: list[Step], changes: dict[str, Any]
) -> None:
    engine = playing(STARTED, *before, PAUSE, PAUSE, END)
    async with serving(engine, heartbeat_s=SOON_S) as served:
        events = await read_all(served, engine)
    assert list_heartbeats(events) == [make_resource(**changes)] * 2
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].type == "response.completed"


async def test_without_a_silence_there_is_no_heartbeat() -> None:
    engine = playing(STARTED, *(TextDelta("A", number) for number in range(1, 50)), END)
    async with serving(engine, heartbeat_s=SOON_S) as served:
        assert list_heartbeats(await read_all(served, engine)) == []


async def test_openais_accumulator_survives_heartbeats() -> None:
    script: list[Step] = [
        STARTED,
        PAUSE,
        TextDelta("Hel", 1),
        PAUSE,
        TextDelta("lo", 2),
        PAUSE,
        END,
    ]
    engine = playing(*script)
    async with (
        serving(engine, heartbeat_s=SOON_S) as served,
        served.openai.responses.stream(**ASK) as stream,
    ):
        async for event in stream:
            if engine.is_silent and event.type == "response.in_progress":
                await engine.end_silence()
        assert (await stream.get_final_response()).output_text == "Hello"


async def test_whoever_waits_for_the_whole_does_not_notice_a_silence() -> None:
    engine = playing(STARTED, TextDelta("Hello", 1), PAUSE, END)
    async with serving(engine, heartbeat_s=SOON_S) as served:
        waiting = asyncio.create_task(served.openai.responses.create(**ASK))
        await engine.held.wait()
        await engine.end_silence()
        assert (await waiting).output_text == "Hello"


async def test_a_failure_after_a_silence_ends_the_stream() -> None:
    engine = playing(STARTED, TextDelta("Hel", 1), PAUSE, GenerationFailedError("Out of memory."))
    async with serving(engine, heartbeat_s=SOON_S) as served:
        *_, last = await read_all(served, engine)
    assert last.type == "response.failed"
    assert last.response.output_text == "Hel"


async def test_a_response_can_be_cancelled_in_a_silence() -> None:
    engine = playing(STARTED, TextDelta("Hel", 1), PAUSE)
    cancelling: asyncio.Task[Any] | None = None
    events: list[ResponseStreamEvent] = []
    async with serving(engine, heartbeat_s=SOON_S) as served:
        stream = await served.openai.responses.create(**ASK, stream=True)
        async for event in stream:
            events.append(event)
            if engine.is_silent and cancelling is None:
                cancelling = asyncio.create_task(served.openai.responses.cancel("resp_1"))
        assert cancelling is not None
        assert (await cancelling).status == "cancelled"
    last = events[-1]
    assert last.type == "response.incomplete"
    assert (last.response.status, last.response.output_text) == ("cancelled", "Hel")


@pytest.mark.parametrize("hang_up", ["tell", "cancel"])
@pytest.mark.parametrize("num_heartbeats", [0, 1, 3])
async def test_a_client_that_leaves_in_a_silence_frees_the_engine_at_once(
    hang_up: HangUp, num_heartbeats: int
) -> None:
    engine, store = playing(STARTED, TextDelta("Hel", 1), PAUSE), ObservedStore()
    async with serving(engine, store=store, hang_up=hang_up, heartbeat_s=SOON_S) as served:
        stream = await served.openai.responses.create(**ASK, stream=True)
        seen = -1
        async for event in stream:
            seen += event.type == "response.in_progress"
            if event.type == "response.output_text.delta" and num_heartbeats == 0:
                break
            if seen == num_heartbeats > 0:
                break
        await stream.close()
        assert (engine.closed, store.statuses) == (["resp_1"], ["cancelled"])
        assert tasks_left() == set()
        stored = await served.openai.responses.retrieve("resp_1")
    assert (stored.status, stored.output_text) == ("cancelled", "Hel")
