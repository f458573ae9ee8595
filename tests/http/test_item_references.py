"""Items that the server keeps are named, or sent back: they stay what they are."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from openai import BadRequestError

from engine.types import ChatMessage, GenerationStarted, TextDelta, ToolCall
from tests.support.asking import (
    THINKS_AND_CALLS,
    Json,
    ask,
    assistant,
    converse,
    in_turn,
    open_stream,
    post,
    refused,
    user,
)
from tests.support.scripted import saying, thinking
from tests.support.serving import ROOMY, Served, make_store, playing, serving
from tests.support.spots import call, message, output

ALICE, BOB = "sk-alice-1", "sk-bob-22"
HELLO = saying("Hello")


def reference(item_id: str | None) -> Json:
    return {"type": "item_reference", "id": item_id}


def unknown(item_id: str | None, param: str) -> tuple[int, Json]:
    return refused(f"Item with id '{item_id}' not found.", param, "item_not_found")


async def list_items(served: Served, response_id: str) -> list[Json]:
    """What a response went on from and was asked, the oldest first."""
    path = f"/v1/responses/{response_id}/input_items?order=asc&limit=100"
    shown: list[Json] = (await served.http.get(path)).json()["data"]
    return shown


async def list_ids(served: Served, response_id: str) -> list[str]:
    return [item["id"] for item in await list_items(served, response_id)]


@pytest.mark.parametrize("named", [reference, lambda it: {"id": it}, lambda it: {**reference(it)}])
async def test_inputs_and_outputs_are_named_by_their_ids(named: Any) -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        first = await ask(served, [message(content="One"), message(content="Two")])
        _, two = await list_ids(served, first.id)
        made = await ask(served, [named(two), named(first.output[0].id), message()])
        assert (await list_ids(served, made.id))[:2] == [two, first.output[0].id]
    assert engine.requests[1].messages == (user("Two"), assistant("Hello"), user("Hi"))


async def test_thoughts_calls_and_outputs_are_named_by_their_ids() -> None:
    """A step of a framework that names what the model said, and sends what its tools gave."""
    engine = in_turn(THINKS_AND_CALLS, HELLO, HELLO)
    async with serving(engine) as served:
        first = await ask(served, "Go.")
        ids = [item.call_id for item in first.output if item.type == "function_call"]
        named: list[Any] = [reference(item.id) for item in first.output]
        given = [output(call_id=call_id) for call_id in ids]
        second = await ask(served, [message(content="Go."), *named, *given])
        all_ids = await list_ids(served, second.id)
        await ask(served, [*map(reference, all_ids), reference(second.output[0].id)])
    rome, now = ToolCall(ids[0], "f", '{"city":"Rome"}'), ToolCall(ids[1], "f", "{}")
    went_before = (
        user("Go."),
        ChatMessage("assistant", "", "Rain?", (rome,)),
        ChatMessage("assistant", "", "Time?", (now,)),
        *(ChatMessage("tool", "ok", call_id=call_id) for call_id in ids),
    )
    assert engine.requests[1].messages == went_before
    assert engine.requests[2].messages == (*went_before, assistant("Hello"))


async def test_the_items_of_a_conversation_are_named_by_their_ids() -> None:
    engine = playing(*HELLO)
    store = make_store(replace(ROOMY, max_entries=0))  # conversations need no responses
    async with serving(engine, store=store) as served:
        items: list[Any] = [message(content="One"), message(role="assistant", content="Two")]
        made = await converse(served, *items)
        ids = [item.id async for item in served.openai.conversations.items.list(made.id)]
        await ask(served, [reference(ids[0]), message()])
    assert engine.requests[0].messages == (assistant("Two"), user("Hi"))


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("path", ["/responses", "/v1/responses/input_tokens"])
async def test_an_unknown_item_is_refused_by_its_place(path: str, store: bool) -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        for item_id in ("msg_1", "\x00", "", "x" * 512):
            items = [message(), reference(item_id)]
            told = await post(served, path, input=items, store=store)
            assert told == unknown(item_id, "input[1].id")
    assert engine.requests == []


async def test_the_items_of_another_key_are_unknown() -> None:
    engine = playing(*HELLO)
    async with serving(engine, keys=[ALICE, BOB]) as served:
        mine = await ask(served)
        ids = [mine.output[0].id, *await list_ids(served, mine.id)]
        assert (await post(served, input=[*map(reference, ids)]))[0] == 200
        served.http.headers["authorization"] = f"Bearer {BOB}"
        for item_id in ids:
            told = await post(served, input=[reference(item_id)])
            assert told == unknown(item_id, "input[0].id")
    assert len(engine.requests) == 2


async def test_the_items_of_a_response_can_be_named_when_it_has_ended() -> None:
    engine = in_turn([GenerationStarted(5), TextDelta("1, ", 1), asyncio.Event()], HELLO)
    async with serving(engine) as served:
        stream = await open_stream(served, "Go.")
        events = [await anext(stream) for _ in range(5)]
        item_id = next(e.item.id for e in events if e.type == "response.output_item.added")
        (own,) = await list_ids(served, "resp_1")
        for running in (item_id, own):
            assert await post(served, input=[reference(running)]) == unknown(running, "input[0].id")
        cancelling = asyncio.create_task(served.openai.responses.cancel("resp_1"))
        assert [event async for event in stream][-1].type == "response.incomplete"
        await cancelling
        await ask(served, [reference(own), reference(item_id)])
    assert engine.requests[1].messages == (user("Go."), assistant("1, "))


@pytest.mark.parametrize("is_stored", [False, True])
async def test_the_items_of_what_is_not_kept_are_unknown(is_stored: bool) -> None:
    async with serving(playing(*HELLO)) as served:
        made = await ask(served, store=is_stored)
        if is_stored:
            await served.openai.responses.delete(made.id)
        with pytest.raises(BadRequestError) as caught:
            await ask(served, [reference(made.output[0].id)])
    assert (caught.value.param, caught.value.code) == ("input[0].id", "item_not_found")


async def test_an_item_beside_a_parent_that_has_it_is_not_said_again() -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        first = await ask(served)
        ids = [*await list_ids(served, first.id), first.output[0].id]
        second = await ask(
            served, [*map(reference, ids), message(content="And?")], previous_response_id=first.id
        )
        shown = await list_ids(served, second.id)
        unkept = [*map(reference, ids), message(content="And?")]
        await ask(served, unkept, previous_response_id=first.id, store=False)
    expected = (user("Hi"), assistant("Hello"), user("And?"))
    assert engine.requests[1].messages == engine.requests[2].messages == expected
    assert shown[:2] == ids
    assert len(shown) == 3


async def test_an_item_of_a_grandparent_or_of_a_conversation_is_not_said_again_either() -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        first = await ask(served, "One", conversation="mine")
        second = await ask(served, "Two", previous_response_id=first.id)
        named: list[Any] = [reference(first.output[0].id), message(content="Three")]
        await ask(served, named, previous_response_id=second.id)
        await ask(served, named, conversation="mine")
    history = (user("One"), assistant("Hello"))
    assert engine.requests[2].messages == (
        *history,
        *(user("Two"), assistant("Hello"), user("Three")),
    )
    assert engine.requests[3].messages == (*history, user("Three"))


async def test_an_item_that_is_named_twice_is_said_once() -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        first = await ask(served)
        item_id = first.output[0].id
        second = await ask(served, [reference(item_id), message(), reference(item_id)])
        shown = await list_items(served, second.id)
    assert engine.requests[1].messages == (assistant("Hello"), user("Hi"))
    assert [item["id"] for item in shown][:1] == [item_id]
    assert len(shown) == 2


async def test_items_sent_back_as_they_were_shown_keep_their_ids() -> None:
    engine = in_turn(THINKS_AND_CALLS, HELLO, HELLO)
    async with serving(engine) as served:
        first = await served.http.post("/v1/responses", json={"model": "echo", "input": "Go."})
        shown = [*await list_items(served, "resp_1"), *first.json()["output"]]
        answers = [output(call_id=item["call_id"]) for item in shown if "call_id" in item]
        second = await ask(served, [*shown, *answers])
        again = await list_items(served, second.id)
        third = await ask(served, [*again, *[item.to_dict() for item in second.output]])
        last = await list_items(served, third.id)
    assert [item["id"] for item in again[:5]] == [item["id"] for item in shown]
    assert again[:5] == shown
    assert last[:-1] == again
    assert last[-1]["id"] == second.output[0].id


CHANGES: list[Json] = [
    {"content": [{"type": "output_text", "text": "Bye"}]},
    {"content": []},
    {"role": "user"},
    {"id": "msg_9"},
    {"id": ""},
    {"id": "x" * 1000},
    {"id": 7},
    {"id": {"a": [1]}},
    {"id": None},
]


@pytest.mark.parametrize("changes", CHANGES)
async def test_an_item_that_is_not_as_it_was_is_a_new_one(changes: Json) -> None:
    async with serving(playing(*HELLO)) as served:
        first = await ask(served)
        sent = first.output[0].to_dict()
        second = await ask(served, [{**sent, **changes}, message()])
        new, _ = await list_items(served, second.id)
        assert (await served.openai.responses.retrieve(first.id)) == first
    assert new["id"].startswith("msg_")
    assert new["id"] not in (sent["id"], changes.get("id"))


async def test_an_item_of_another_key_that_is_sent_back_is_a_new_one() -> None:
    async with serving(playing(*HELLO), keys=[ALICE, BOB]) as served:
        first = await ask(served)
        served.http.headers["authorization"] = f"Bearer {BOB}"
        bobs = served.openai.with_options(api_key=BOB)
        sent: Any = [first.output[0].to_dict(), message()]
        second = await bobs.responses.create(model="scripted", input=sent)
        new, _ = await list_items(served, second.id)
    assert new["id"] != first.output[0].id
    assert new["content"][0]["text"] == "Hello"


async def test_an_item_sent_back_beside_its_parent_is_not_said_again() -> None:
    engine = in_turn([GenerationStarted(5), *thinking("Hm"), *saying("Hello")[1:]], HELLO)
    async with serving(engine) as served:
        first = await ask(served)
        whole = [*await list_items(served, first.id), *(it.to_dict() for it in first.output)]
        made = await ask(served, [*whole, message()], previous_response_id=first.id)
        shown = await list_items(served, made.id)
    hello = ChatMessage("assistant", "Hello", "Hm")
    assert engine.requests[1].messages == (user("Hi"), hello, user("Hi"))
    assert shown[:-1] == whole


async def test_a_server_that_keeps_nothing_takes_an_item_as_it_is_sent() -> None:
    """An id is looked up only where the response is to be kept, and then only to keep it."""
    engine = playing(*HELLO)
    async with serving(engine) as served:
        thought: Any = {"type": "reasoning", "id": "rs_gone", "summary": [], "content": []}
        thought["content"] = [{"type": "reasoning_text", "text": "So."}]
        for store in (False, True):
            await ask(served, [thought, message()], store=store)
    expected = (ChatMessage("assistant", "", "So."), user("Hi"))
    assert [request.messages for request in engine.requests] == [expected] * 2


# ── outputs of calls ─────────────────────────────────────────────────────────────────────────────


def no_call(call_id: str, param: str) -> tuple[int, Json]:
    return refused(
        f"No call with the id '{call_id}' is in what went before: which function gave this "
        "output cannot be told.",
        param,
        "invalid_value",
    )


@pytest.mark.parametrize("path", ["/v1/responses", "/responses/input_tokens"])
async def test_an_output_of_no_call_is_refused_where_there_is_a_history(path: str) -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        first = await ask(served, [message(), call(call_id="c")])
        for more in ({"previous_response_id": first.id}, {"conversation": "new"}):
            sent = [message(), output(call_id="other")]
            told = await post(served, path, input=sent, stream=True, **more)
            assert told == no_call("other", "input[1].call_id")
            early = [output(call_id="d"), call(call_id="d")]
            told = await post(served, path, input=early, **more)
            assert told == no_call("d", "input[0].call_id")
    assert len(engine.requests) == 1


async def test_an_output_of_no_call_is_taken_where_there_is_none() -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        first = await ask(served, [output(call_id="nobodys")])
        await ask(served, "And?", previous_response_id=first.id)
    expected = (ChatMessage("tool", "ok", call_id="nobodys"), assistant("Hello"), user("And?"))
    assert engine.requests[1].messages == expected


async def test_an_output_may_answer_a_call_of_any_turn_before_or_of_its_own_input() -> None:
    engine = in_turn(THINKS_AND_CALLS, HELLO, HELLO)
    async with serving(engine) as served:
        first = await ask(served, "Go.")
        one, two = [item.call_id for item in first.output if item.type == "function_call"]
        second = await ask(served, [output(call_id=one)], previous_response_id=first.id)
        late = [output(call_id=two), call(call_id="mine"), output(call_id="mine")]
        assert (await post(served, input=late, previous_response_id=second.id))[0] == 200
    told = [turn.call_id for turn in engine.requests[2].messages if turn.role == "tool"]
    assert told == [one, two, "mine"]


async def test_two_unanswered_calls_with_one_id_are_refused_across_turns() -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        first = await ask(served, [message(), call(call_id="c")])
        status, told = await post(served, input=[call(call_id="c")], previous_response_id=first.id)
        answered = [output(call_id="c"), call(call_id="c"), output(call_id="c")]
        assert (await post(served, input=answered, previous_response_id=first.id))[0] == 200
    assert (status, told["error"]["param"]) == (400, "input[0].call_id")
    assert "'c'" in told["error"]["message"]
