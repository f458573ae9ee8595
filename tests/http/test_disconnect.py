"""A client that hangs up: its response is cancelled, wherever it was, and nothing runs on."""

import asyncio
from typing import Any

import pytest

from engine.types import GenerationFinished, GenerationStarted, TextDelta
from tests.support.exchange import HangUp
from tests.support.observed import ObservedStore
from tests.support.resources import make_call, make_message, make_resource, make_usage
from tests.support.scripted import ScriptedEngine, Step, calling
from tests.support.serving import Served, playing, serving
from tests.support.tasks import tasks_left

ASK: dict[str, Any] = {"model": "scripted", "input": "Count."}
STREAMED = {**ASK, "stream": True}
CANCELLED = make_resource(
    status="cancelled",
    output=[make_message("1, ", status="incomplete")],
    output_text="1, ",
    usage=make_usage(5, 1),
)


def counting_for_ever() -> list[Step]:
    return [GenerationStarted(5), TextDelta("1, ", 1), asyncio.Event()]


@pytest.fixture(params=["tell", "cancel"])
def hang_up(request: pytest.FixtureRequest) -> HangUp:
    """How the server lets the app know: as uvicorn does, or as Serve does."""
    kind: HangUp = request.param
    return kind


async def retrieve(served: Served) -> dict[str, Any]:
    body: dict[str, Any] = (await served.http.get("/v1/responses/resp_1")).json()
    return body


async def test_a_client_that_leaves_in_the_middle_of_a_stream(hang_up: HangUp) -> None:
    engine = playing(*counting_for_ever())
    async with serving(engine, hang_up=hang_up) as served:
        stream = await served.openai.responses.create(**ASK, stream=True)
        async for event in stream:
            if event.type == "response.output_text.delta":
                await stream.close()
                break
        assert engine.closed == ["resp_1"]
        assert await retrieve(served) == CANCELLED


async def test_a_client_that_leaves_while_nothing_is_sent(hang_up: HangUp) -> None:
    engine = playing(*counting_for_ever())
    async with serving(engine, hang_up=hang_up) as served:
        stream = await served.openai.responses.create(**ASK, stream=True)
        for _ in range(5):
            await anext(stream)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await anext(stream)
        assert engine.closed == ["resp_1"]
        assert await retrieve(served) == CANCELLED


@pytest.mark.parametrize("num_chunks", [0, 1, 2])
async def test_a_client_that_leaves_before_the_first_character(
    hang_up: HangUp, num_chunks: int
) -> None:
    engine, store = playing(*counting_for_ever()), ObservedStore()
    async with serving(engine, store=store, hang_up=hang_up) as served:
        async with served.http.stream("POST", "/v1/responses", json=STREAMED) as reply:
            chunks = reply.aiter_raw()
            for _ in range(num_chunks):
                await anext(chunks)
        assert (engine.closed, store.statuses) == (["resp_1"], ["cancelled"])
        assert (await retrieve(served))["status"] == "cancelled"


async def test_a_client_that_leaves_before_the_model_has_begun(hang_up: HangUp) -> None:
    is_asked, is_ready, store = asyncio.Event(), asyncio.Event(), ObservedStore()

    def script(_: object) -> list[Step]:
        is_asked.set()
        return [is_ready, *counting_for_ever()]

    engine = ScriptedEngine(script)
    async with serving(engine, store=store, hang_up=hang_up) as served:
        asking = asyncio.create_task(served.http.post("/v1/responses", json=STREAMED))
        await is_asked.wait()
        asking.cancel()
        is_ready.set()
        with pytest.raises(asyncio.CancelledError):
            await asking
    has_begun = hang_up == "tell"
    assert (engine.closed, store.statuses) == (["resp_1"], ["cancelled"] if has_begun else [])


async def test_a_client_that_leaves_while_it_waits_for_the_whole() -> None:
    engine, store = playing(*counting_for_ever()), ObservedStore()
    async with serving(engine, store=store, hang_up="cancel") as served:
        asking = asyncio.create_task(served.http.post("/v1/responses", json=ASK))
        await store.wait_begun()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (engine.closed, store.statuses) == (["resp_1"], ["cancelled"])
        assert (await retrieve(served))["status"] == "cancelled"


async def test_a_client_that_leaves_after_the_end_changes_nothing(hang_up: HangUp) -> None:
    engine, store = playing(*counting_for_ever()), ObservedStore()
    async with serving(engine, store=store, hang_up=hang_up) as served:
        stream = await served.openai.responses.create(**ASK, stream=True)
        cancelling: asyncio.Task[Any] | None = None
        async for event in stream:
            if event.type == "response.output_text.delta":
                cancelling = asyncio.create_task(served.openai.responses.cancel("resp_1"))
            if event.type == "response.incomplete":
                break
        await stream.close()
        assert cancelling is not None
        await cancelling
    assert store.statuses == ["cancelled"]


async def test_a_client_that_leaves_in_the_middle_of_a_call(hang_up: HangUp) -> None:
    engine = playing(GenerationStarted(5), *calling("find", '{"q":')[:-1], asyncio.Event())
    async with serving(engine, hang_up=hang_up) as served:
        stream = await served.openai.responses.create(**ASK, stream=True)
        async for event in stream:
            if event.type == "response.function_call_arguments.delta":
                break
        await stream.close()
        assert (engine.closed, tasks_left()) == (["resp_1"], set())
        stored = await retrieve(served)
    assert stored["output"] == [make_call("find", '{"q":', status="incomplete")]


@pytest.mark.parametrize("is_one_batch", [False, True])
@pytest.mark.parametrize("num_read", range(1, 10))
async def test_whenever_a_client_leaves_its_response_has_one_end(
    hang_up: HangUp, num_read: int, is_one_batch: bool
) -> None:
    said = (GenerationStarted(5), TextDelta("Hello", 1), GenerationFinished("stop", 2))
    engine, store = playing(*([said] if is_one_batch else said)), ObservedStore()
    async with serving(engine, store=store, hang_up=hang_up) as served:
        async with served.http.stream("POST", "/v1/responses", json=STREAMED) as reply:
            chunks = reply.aiter_raw()
            for _ in range(num_read):
                await anext(chunks)
        await store.wait_ended()
        stored = await retrieve(served)
        assert (engine.closed, tasks_left()) == (["resp_1"], set())
    # The whole response is there when the sixth event is sent; before it, there is only a part.
    assert stored["status"] == ("completed" if num_read >= 6 else "cancelled")
    assert store.statuses == [stored["status"]]
