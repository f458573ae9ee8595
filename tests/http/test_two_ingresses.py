"""Two ingresses over one store and one engine: nothing depends on which of them is asked."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from openai import BadRequestError, NotFoundError

from engine.types import ChatMessage
from tests.http.test_cancel import counting_for_ever
from tests.support.scripted import ScriptedEngine, saying
from tests.support.serving import Served, make_ids, make_store, playing, serving

ASK: dict[str, Any] = {"model": "scripted", "input": "Count."}


@asynccontextmanager
async def two(engine: ScriptedEngine) -> AsyncIterator[tuple[Served, Served]]:
    store, make_id = make_store(), make_ids()
    async with (
        serving(engine, store=store, make_id=make_id) as one,
        serving(engine, store=store, make_id=make_id) as other,
    ):
        yield one, other


async def test_what_one_made_the_other_reads_and_deletes() -> None:
    async with two(playing(*saying("Hello"))) as (one, other):
        made = await one.openai.responses.create(**ASK)
        assert await other.openai.responses.retrieve(made.id) == made
        pages = await other.openai.responses.input_items.list(made.id)
        assert [item.type for item in pages.data] == ["message"]
        await other.openai.responses.delete(made.id)
        with pytest.raises(NotFoundError):
            await one.openai.responses.retrieve(made.id)


async def test_a_chain_goes_back_and_forth() -> None:
    engine = playing(*saying("Hello"))
    async with two(engine) as served:
        parent: str | None = None
        for turn in range(6):
            client = served[turn % 2].openai
            made = await client.responses.create(
                model="scripted", input=f"Turn {turn}", previous_response_id=parent
            )
            parent = made.id
    texts = [message.content for message in engine.requests[-1].messages]
    assert texts == [text for turn in range(6) for text in (f"Turn {turn}", "Hello")][:-1]


async def test_a_conversation_is_the_same_from_both_sides() -> None:
    engine = playing(*saying("Hello"))
    async with two(engine) as (one, other):
        made = await one.openai.conversations.create(items=[{"role": "user", "content": "Hi"}])
        await other.openai.responses.create(**ASK, conversation=made.id)
        await one.openai.responses.create(**ASK, conversation={"id": made.id})
        listed = await other.openai.conversations.items.list(made.id, order="asc")
        await other.openai.conversations.delete(made.id)
        with pytest.raises(NotFoundError):
            await one.openai.conversations.retrieve(made.id)
    assert len(listed.data) == 5
    assert engine.requests[-1].messages == (
        ChatMessage("user", "Hi"),
        ChatMessage("user", "Count."),
        ChatMessage("assistant", "Hello"),
        ChatMessage("user", "Count."),
    )


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("is_streamed", [True, False])
async def test_what_runs_in_one_is_cancelled_through_the_other(
    is_stored: bool, is_streamed: bool
) -> None:
    engine = playing(*counting_for_ever())
    async with two(engine) as (one, other):
        body = {**ASK, "store": is_stored, "stream": is_streamed}
        waiting = asyncio.create_task(one.http.post("/v1/responses", json=body))
        await engine.held.wait()
        cancelled = await other.openai.responses.cancel("resp_1")
        reply = await waiting
    assert (cancelled.status, cancelled.output_text) == ("cancelled", "1, 2, ")
    assert reply.status_code == 200
    assert '"status":"cancelled"' in reply.text


async def test_what_runs_in_one_is_read_refused_as_a_parent_and_deleted_through_the_other() -> None:
    engine = playing(*counting_for_ever())
    async with two(engine) as (one, other):
        waiting = asyncio.create_task(one.openai.responses.create(**ASK))
        await engine.held.wait()
        assert (await other.openai.responses.retrieve("resp_1")).status == "in_progress"
        with pytest.raises(BadRequestError) as caught:
            await other.openai.responses.create(**ASK, previous_response_id="resp_1")
        await other.openai.responses.delete("resp_1")
        stopped = await waiting
        with pytest.raises(NotFoundError):
            await one.openai.responses.retrieve("resp_1")
    assert caught.value.code == "previous_response_in_progress"
    assert stopped.status == "cancelled"
