"""A client that hangs up on a chat or a completion: the engine stops, and nothing is kept."""

import asyncio
from typing import Any

import pytest

from engine.types import GenerationStarted, TextDelta
from tests.support.bad_chat_requests import GOOD_CHAT, GOOD_COMPLETION
from tests.support.exchange import HangUp
from tests.support.observed import ObservedStore
from tests.support.scripted import ScriptedEngine, Step
from tests.support.serving import playing, serving

Route = tuple[str, dict[str, Any], str]
ROUTES: dict[str, Route] = {
    "chat": ("/v1/chat/completions", GOOD_CHAT, "chatcmpl_1"),
    "completion": ("/v1/completions", GOOD_COMPLETION, "cmpl_1"),
}


def counting_for_ever() -> list[Step]:
    return [GenerationStarted(5), TextDelta("1, ", 1), asyncio.Event()]


@pytest.fixture(params=["tell", "cancel"])
def hang_up(request: pytest.FixtureRequest) -> HangUp:
    """How the server lets the app know: as uvicorn does, or as Serve does."""
    kind: HangUp = request.param
    return kind


@pytest.fixture(params=ROUTES)
def route(request: pytest.FixtureRequest) -> Route:
    return ROUTES[request.param]


@pytest.mark.parametrize("num_chunks", [0, 1, 2])
async def test_a_client_that_leaves_a_stream(
    hang_up: HangUp, route: Route, num_chunks: int
) -> None:
    path, body, generation_id = route
    engine, store = playing(*counting_for_ever()), ObservedStore()
    async with serving(engine, store=store, hang_up=hang_up, heartbeat_s=0.001) as served:
        async with served.http.stream("POST", path, json={**body, "stream": True}) as reply:
            chunks = reply.aiter_raw()
            for _ in range(num_chunks):
                await anext(chunks)
        assert (engine.closed, store.ends) == ([generation_id], [])


async def test_openais_client_that_leaves_in_the_middle(hang_up: HangUp) -> None:
    engine = playing(*counting_for_ever())
    async with serving(engine, hang_up=hang_up) as served:
        stream = await served.openai.chat.completions.create(**GOOD_CHAT, stream=True)
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                await stream.close()
                break
        assert engine.closed == ["chatcmpl_1"]


async def test_a_client_that_leaves_while_it_waits_for_the_whole(route: Route) -> None:
    path, body, generation_id = route
    engine = playing(*counting_for_ever())
    async with serving(engine, hang_up="cancel") as served:
        asking = asyncio.create_task(served.http.post(path, json=body))
        await engine.held.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert engine.closed == [generation_id]


async def test_a_client_that_leaves_before_the_model_has_begun(
    hang_up: HangUp, route: Route
) -> None:
    path, body, generation_id = route
    is_ready = asyncio.Event()
    engine = ScriptedEngine(lambda _: [is_ready, *counting_for_ever()])
    async with serving(engine, hang_up=hang_up) as served:
        asking = asyncio.create_task(served.http.post(path, json={**body, "stream": True}))
        await engine.held.wait()
        asking.cancel()
        is_ready.set()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert engine.closed == [generation_id]
