"""A response to go on from that is not there, not yet, or not any more."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from openai import BadRequestError, NotFoundError

from deployments.authentication import EVERYONE
from deployments.store_deployment import StoreDeployment
from engine.errors import GenerationFailedError
from engine.types import GenerationStarted, TextDelta
from stores.memory import MemoryStore
from stores.types import History, HistoryQuery, StoreBounds
from tests.support.asking import Json, ask, assistant, in_turn, post, refused, user
from tests.support.scripted import Step, saying
from tests.support.serving import ROOMY, Served, make_store, playing, serving

ALICE, BOB = "sk-alice-1", "sk-bob-22"
ENDLESS: list[Step] = [GenerationStarted(5), TextDelta("1, ", 1), asyncio.Event()]
HELLO = saying("Hello")
WAYS: list[tuple[str, Json]] = [
    ("/v1/responses", {}),
    ("/responses", {"stream": True}),
    ("/v1/responses", {"store": False}),
    ("/v1/responses/input_tokens", {}),
]


def unknown(response_id: str) -> tuple[int, Json]:
    return refused(
        f"Previous response with id '{response_id}' not found.",
        "previous_response_id",
        "previous_response_not_found",
    )


async def go_on(served: Served, parent: str) -> list[tuple[int, Json]]:
    """What each way of asking is answered."""
    return [
        await post(served, path, input="And?", previous_response_id=parent, **more)
        for path, more in WAYS
    ]


@pytest.mark.parametrize("parent", ["resp_1", "conv_1", "msg_1", "\x00", "🙂", "a/b", "x" * 512])
async def test_an_unknown_parent_is_refused_before_any_model_is_asked(parent: str) -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        assert await go_on(served, parent) == [unknown(parent)] * len(WAYS)
    assert engine.requests == []


@pytest.mark.parametrize("parent", ["", "x" * 513])
async def test_what_can_be_no_parent_is_a_wrong_value(parent: str) -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        told = [error["error"] for _, error in await go_on(served, parent)]
    places = {(error["param"], error["code"]) for error in told}
    assert places == {("previous_response_id", "invalid_value")}
    assert engine.requests == []


async def test_openais_client_is_told_of_an_unknown_parent() -> None:
    async with serving(playing(*HELLO)) as served:
        for is_streamed in (False, True):
            with pytest.raises(BadRequestError) as caught:
                await ask(served, is_streamed=is_streamed, previous_response_id="resp_9")
            assert caught.value.param == "previous_response_id"
            assert caught.value.code == "previous_response_not_found"


async def test_the_parent_of_another_key_is_an_unknown_one() -> None:
    engine = playing(*HELLO)
    async with serving(engine, keys=[ALICE, BOB]) as served:
        mine = await ask(served)
        assert (await post(served, previous_response_id=mine.id))[0] == 200
        served.http.headers["authorization"] = f"Bearer {BOB}"
        assert await go_on(served, mine.id) == [unknown(mine.id)] * len(WAYS)
    assert len(engine.requests) == 2


async def make_unstored(served: Served) -> str:
    return (await ask(served, store=False)).id


async def make_deleted(served: Served) -> str:
    made = await ask(served)
    await served.openai.responses.delete(made.id)
    return made.id


@pytest.mark.parametrize("make", [make_unstored, make_deleted])
async def test_a_parent_that_is_not_kept_is_an_unknown_one(
    make: Callable[[Served], Awaitable[str]],
) -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        gone = await make(served)
        assert await go_on(served, gone) == [unknown(gone)] * len(WAYS)
    assert len(engine.requests) == 1


async def test_a_parent_that_was_deleted_while_it_ran_is_an_unknown_one() -> None:
    engine = playing(*ENDLESS)
    async with serving(engine) as served:
        waiting = asyncio.create_task(ask(served))
        await engine.held.wait()
        await served.openai.responses.delete("resp_1")
        assert (await waiting).status == "cancelled"
        assert await go_on(served, "resp_1") == [unknown("resp_1")] * len(WAYS)
    assert len(engine.requests) == 1


async def test_an_evicted_parent_is_an_unknown_one() -> None:
    engine = playing(*HELLO)
    async with serving(engine, store=make_store(replace(ROOMY, max_entries=2))) as served:
        made = [await ask(served) for _ in range(3)]
        assert await go_on(served, made[0].id) == [unknown(made[0].id)] * len(WAYS)
        assert (await post(served, previous_response_id=made[1].id))[0] == 200


async def test_an_expired_parent_is_an_unknown_one_however_often_it_was_used() -> None:
    now_s = [0.0]
    engine = playing(*HELLO)
    store = make_store(replace(ROOMY, ttl_s=60), clock=lambda: now_s[0])
    async with serving(engine, store=store) as served:
        first = await ask(served)
        for now_s[0] in (30.0, 59.9):
            assert (await post(served, previous_response_id=first.id))[0] == 200
        now_s[0] = 60.1
        assert await go_on(served, first.id) == [unknown(first.id)] * len(WAYS)


async def test_without_a_time_to_live_no_parent_expires() -> None:
    now_s = [0.0]
    store = make_store(replace(ROOMY, ttl_s=0), clock=lambda: now_s[0])
    async with serving(playing(*HELLO), store=store) as served:
        first = await ask(served)
        now_s[0] = 1e9
        assert (await post(served, previous_response_id=first.id))[0] == 200


async def test_a_store_without_bytes_has_no_parents() -> None:
    store = make_store(replace(ROOMY, max_bytes=0))
    async with serving(playing(*HELLO), store=store) as served:
        first = await ask(served)
        assert first.to_dict()["store"] is True
        assert await go_on(served, first.id) == [unknown(first.id)] * len(WAYS)


async def test_a_disabled_store_names_its_setting() -> None:
    engine = playing(*HELLO)
    async with serving(engine, store=make_store(replace(ROOMY, max_entries=0))) as served:
        for status, told in await go_on(served, "resp_1"):
            assert (status, told["error"]["code"]) == (400, "unsupported_value")
            assert "`responses_store_max_entries`" in told["error"]["message"]
    assert engine.requests == []


async def test_a_failed_parent_says_that_it_has_failed() -> None:
    failure = GenerationFailedError("The model ran out of memory.")
    engine = playing(GenerationStarted(5), TextDelta("Hel", 1), failure)
    async with serving(engine) as served:
        assert (await ask(served, is_streamed=True)).status == "failed"
        told = refused(
            "The response 'resp_1' has failed: there is nothing to go on from.",
            "previous_response_id",
            "previous_response_failed",
        )
        assert await go_on(served, "resp_1") == [told] * len(WAYS)
    assert len(engine.requests) == 1


async def test_a_parent_that_runs_says_that_it_runs() -> None:
    engine = playing(*ENDLESS)
    async with serving(engine) as served:
        waiting = asyncio.create_task(ask(served))
        await engine.held.wait()
        told = refused(
            "The response 'resp_1' still runs; go on from it when it has ended.",
            "previous_response_id",
            "previous_response_in_progress",
        )
        assert await go_on(served, "resp_1") == [told] * len(WAYS)
        await served.openai.responses.cancel("resp_1")
        await waiting
    assert len(engine.requests) == 1


class HastyStore(StoreDeployment):
    """Its parents are deleted as soon as their histories are read."""

    async def read_history(self, query: HistoryQuery) -> History:
        history = await super().read_history(query)
        assert query.parent_id is not None
        await self.delete(query.parent_id, query.owner)
        return history


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_parent_that_goes_while_it_is_read_is_an_unknown_one(is_streamed: bool) -> None:
    engine = playing(*HELLO)
    store = HastyStore(MemoryStore(StoreBounds(ROOMY, ROOMY), lambda: 0.0), lambda: 0.0)
    async with serving(engine, store=store) as served:
        first = await ask(served)
        status, told = await post(served, previous_response_id=first.id, stream=is_streamed)
        assert engine.closed == ["resp_1", "resp_2"]  # what was begun for it is not generated
        assert await store.watch("resp_2", EVERYONE) is None
    error = told["error"]
    assert (status, error["param"]) == (400, "previous_response_id")
    assert error["code"] == "previous_response_not_found"


# ── ancestors that go ────────────────────────────────────────────────────────────────────────────


async def make_chain(served: Served, length: int) -> list[str]:
    ids: list[str] = []
    for number in range(length):
        parent = ids[-1] if ids else None
        ids.append((await ask(served, str(number), previous_response_id=parent)).id)
    return ids


def chain(length: int) -> tuple[Any, ...]:
    return tuple(turn for n in range(length) for turn in (user(str(n)), assistant("Hello")))


async def test_a_descendant_goes_on_when_its_ancestors_are_evicted() -> None:
    engine = playing(*HELLO)
    async with serving(engine, store=make_store(replace(ROOMY, max_entries=2))) as served:
        ids = await make_chain(served, 6)
        replies = [await served.http.get(f"/v1/responses/{each}") for each in ids]
        shown = await served.http.get(f"/v1/responses/{ids[5]}/input_items?limit=100&order=asc")
    assert [reply.status_code for reply in replies] == [404] * 4 + [200] * 2
    assert engine.requests[5].messages == (*chain(5), user("5"))
    texts = [item["content"][0]["text"] for item in shown.json()["data"]]
    assert texts == ["0", "Hello", "1", "Hello", "2", "Hello", "3", "Hello", "4", "Hello", "5"]


@pytest.mark.parametrize("order", [1, -1])
async def test_a_descendant_goes_on_when_its_ancestors_are_deleted(order: int) -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        ids = await make_chain(served, 4)
        for ancestor in ids[:3][::order]:
            await served.openai.responses.delete(ancestor)
            with pytest.raises(NotFoundError):
                await served.openai.responses.retrieve(ancestor)
        assert (await served.openai.responses.retrieve(ids[3])).previous_response_id == ids[2]
        await ask(served, "4", previous_response_id=ids[3])
    assert engine.requests[4].messages == (*chain(4), user("4"))


async def test_a_child_that_runs_is_kept_whole_when_its_parent_is_deleted() -> None:
    go_on = asyncio.Event()
    engine = in_turn(HELLO, [GenerationStarted(5), go_on, *HELLO[1:]], HELLO)
    async with serving(engine) as served:
        first = await ask(served, "0")
        running = asyncio.create_task(ask(served, "1", previous_response_id=first.id))
        await engine.held.wait()
        await served.openai.responses.delete(first.id)
        go_on.set()
        child = await running
        await ask(served, "2", previous_response_id=child.id)
    assert (child.status, child.previous_response_id) == ("completed", first.id)
    assert engine.requests[2].messages == (*chain(2), user("2"))


async def test_ancestors_that_expire_do_not_take_a_younger_descendant_along() -> None:
    now_s = [0.0]
    engine = playing(*HELLO)
    store = make_store(replace(ROOMY, ttl_s=60), clock=lambda: now_s[0])
    async with serving(engine, store=store) as served:
        (first,) = await make_chain(served, 1)
        now_s[0] = 50.0
        child = await ask(served, "1", previous_response_id=first)
        now_s[0] = 100.0
        assert (await post(served, previous_response_id=first))[0] == 400
        await ask(served, "2", previous_response_id=child.id)
    assert engine.requests[2].messages == (*chain(2), user("2"))


async def test_with_the_last_descendant_all_that_it_needed_goes() -> None:
    async with serving(playing(*HELLO)) as served:
        first = await ask(served)
        child = await ask(served, "And?", previous_response_id=first.id)
        reference: Any = [{"type": "item_reference", "id": first.output[0].id}]
        await served.openai.responses.delete(first.id)
        assert (await post(served, input=reference))[0] == 200
        for response_id in ("resp_3", child.id):
            await served.openai.responses.delete(response_id)
        status, told = await post(served, input=reference)
    assert (status, told["error"]["code"]) == (400, "item_not_found")
