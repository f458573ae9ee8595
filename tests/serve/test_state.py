"""Chains and conversations over a real cluster, with the clients that people have."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from agents import Agent, ModelSettings, RunConfig, Runner
from agents.memory import OpenAIConversationsSession
from agents.models.openai_responses import OpenAIResponsesModel
from openai.types.responses import Response

from benchmarks.crashes import read_file
from tests.serve.conftest import VARIABLE_KEY
from tests.support.item_oracles import check_item_list
from tests.support.server import Server

PLAIN, TINY = "smollm2-135m", "long"
NAME, QUESTION = "My name is Ada.", "What is my name?"
NUM_CHAINED = 20


def ask(client: openai.OpenAI, text: Any, limit: int = 8, **body: Any) -> Response:
    response: Response = client.responses.create(
        model=PLAIN, input=text, temperature=0, max_output_tokens=limit, **body
    )
    return response


def input_tokens(response: Response) -> int:
    assert response.usage is not None
    return response.usage.input_tokens


@pytest.fixture
async def asynchronous(server: Server) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{server.url}/v1", api_key=server.key, max_retries=0, timeout=120
    ) as client:
        yield client


def test_a_chained_request_knows_what_was_said_before(v1: openai.OpenAI) -> None:
    first = ask(v1, NAME)
    second = ask(v1, QUESTION, previous_response_id=first.id)
    said: list[Any] = [{"role": "user", "content": NAME}, *first.output]
    by_hand = ask(v1, [*said, {"role": "user", "content": QUESTION}], store=False)
    assert second.output_text == by_hand.output_text
    assert input_tokens(second) == input_tokens(by_hand) > input_tokens(first) + 8
    counted = v1.responses.input_tokens.count(
        model=PLAIN, input=QUESTION, previous_response_id=first.id
    )
    assert counted.input_tokens == input_tokens(second)
    assert v1.responses.retrieve(second.id).previous_response_id == first.id


def test_a_descendant_outlives_its_parent(v1: openai.OpenAI) -> None:
    first = ask(v1, NAME)
    second = ask(v1, QUESTION, previous_response_id=first.id)
    page = v1.responses.input_items.list(second.id, order="asc", limit=2)
    check_item_list(page.to_dict())
    v1.responses.delete(first.id)
    with pytest.raises(openai.BadRequestError) as caught:
        ask(v1, QUESTION, previous_response_id=first.id)
    assert caught.value.code == "previous_response_not_found"
    items = [item.to_dict() for item in page]
    assert items == [
        item.to_dict() for item in v1.responses.input_items.list(second.id, order="asc")
    ]
    assert items[1] == first.output[0].to_dict()
    third = ask(v1, QUESTION, 1, previous_response_id=second.id)
    assert input_tokens(third) > input_tokens(second)


async def test_chained_requests_in_the_instant_of_the_end_find_their_parent(
    asynchronous: openai.AsyncOpenAI,
) -> None:
    async def go_on(parent: str) -> Response:
        return await asynchronous.responses.create(
            model=TINY, input=QUESTION, max_output_tokens=1, previous_response_id=parent
        )

    stream = await asynchronous.responses.create(
        model=TINY, input=NAME, max_output_tokens=2, stream=True
    )
    async for event in stream:
        if event.type == "response.incomplete":
            parent = event.response
            chained = await asyncio.gather(*(go_on(parent.id) for _ in range(NUM_CHAINED)))
    assert {each.previous_response_id for each in chained} == {parent.id}
    assert min(map(input_tokens, chained)) > input_tokens(parent)


def test_a_conversation_is_kept_for_its_key(client: openai.OpenAI) -> None:
    items: list[Any] = [{"role": "user", "content": NAME}]
    made = client.conversations.create(items=items, metadata={"a": "b"})
    first = ask(client, QUESTION, conversation=made.id)
    shown = list(client.conversations.items.list(made.id, order="asc", limit=2))
    assert shown[2].to_dict() == first.output[0].to_dict()
    assert input_tokens(ask(client, QUESTION, 1, conversation=made.id)) > input_tokens(first)
    with pytest.raises(openai.NotFoundError):
        client.with_options(api_key=VARIABLE_KEY).conversations.retrieve(made.id)
    item_id = shown[0].id or ""
    assert client.conversations.items.delete(item_id, conversation_id=made.id) == made
    with pytest.raises(openai.NotFoundError):
        client.conversations.items.retrieve(item_id, conversation_id=made.id)
    assert client.conversations.update(made.id, metadata={"a": "c"}).metadata == {"a": "c"}
    assert client.conversations.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(made.id)


async def test_an_agent_remembers_by_a_conversation(asynchronous: openai.AsyncOpenAI) -> None:
    agent = Agent(
        name="Clerk",
        instructions="Be brief.",
        model=OpenAIResponsesModel(PLAIN, asynchronous),
        # An answer that is cut at its length would be an error of the run.
        model_settings=ModelSettings(temperature=0, extra_body={"stop": [".", "!", "?", ","]}),
    )
    session = OpenAIConversationsSession(openai_client=asynchronous)
    alone = RunConfig(tracing_disabled=True)  # or it would speak to a server elsewhere
    runs = [
        await Runner.run(agent, text, session=session, run_config=alone)
        for text in (NAME, QUESTION)
    ]
    tokens = [run.raw_responses[0].usage.input_tokens for run in runs]
    items = await session.get_items()
    assert [item.get("role") for item in items] == ["user", "assistant"] * 2
    assert tokens[1] > tokens[0] + 8
    assert await session.pop_item() == items[-1]
    assert await session.get_items() == items[:-1]
    await session.clear_session()
    assert len(runs[1].final_output) > 0


def wait_idle(file: Path) -> None:
    """Wait until no response in a store's file is in progress."""
    deadline = time.monotonic() + 30
    while read_file(file)[1]:
        assert time.monotonic() < deadline
        time.sleep(0.2)


async def leave_early(client: httpx2.AsyncClient, pause_s: float, **body: Any) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(pause_s):
            asked = {"model": TINY, "input": "Go.", "max_output_tokens": 2, **body}
            await client.post("/v1/responses", json=asked)


async def test_whoever_leaves_at_once_leaves_nothing_running(server: Server) -> None:
    """At any moment of a beginning, of which the store may have heard or not."""
    headers = {"authorization": f"Bearer {server.key}"}
    async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=60) as client:
        for pause_ms in range(2, 62):
            leaving = [
                leave_early(client, pause_ms / 1000, stream=number % 2 == 0) for number in range(6)
            ]
            await asyncio.gather(*leaving)
    await asyncio.to_thread(wait_idle, server.output.parent / "data/store.sqlite3")


def test_nothing_of_what_is_not_to_be_stored_is_on_the_disk(
    server: Server, v1: openai.OpenAI
) -> None:
    folder = server.output.parent / "data"
    for is_stored, secret in ((False, "zibeline-quartz"), (True, "zibeline-jasper")):
        v1.responses.create(
            model=TINY, input=f"Keep {secret}.", store=is_stored, max_output_tokens=2
        )
        files = [file.read_bytes() for file in folder.iterdir()]
        assert any(secret.encode() in data for data in files) == is_stored
    assert len(files) >= 2  # the file and its log
