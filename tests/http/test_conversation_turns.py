"""A response of a conversation goes on from it, and is added to it when it has ended well."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from engine.errors import GenerationFailedError
from engine.types import ChatMessage, GenerationFinished, GenerationStarted, TextDelta, ToolCall
from stores.errors import StoreFaultError
from tests.support.asking import (
    THINKS_AND_CALLS,
    Json,
    add_items,
    ask,
    assistant,
    converse,
    count,
    in_turn,
    open_stream,
    post,
    refused,
    user,
)
from tests.support.item_oracles import check_item_list
from tests.support.observed import ObservedStore
from tests.support.scripted import ScriptedEngine, Step, saying, thinking
from tests.support.serving import ROOMY, Served, make_store, playing, serving
from tests.support.spots import image, message, output

ALICE, BOB = "sk-alice-1", "sk-bob-22"
HELLO = saying("Hello")
DISABLED = replace(ROOMY, max_entries=0)


async def list_items(served: Served, conversation_id: str = "mine") -> list[Json]:
    """The items of a conversation, the oldest first."""
    path = f"/v1/conversations/{conversation_id}/items?order=asc&limit=100"
    page = (await served.http.get(path)).json()
    check_item_list(page)
    items: list[Json] = page["data"]
    return items


async def list_texts(served: Served, conversation_id: str = "mine") -> list[str]:
    items = await list_items(served, conversation_id)
    return [item["content"][0]["text"] for item in items]


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("conversation", ["mine", {"id": "mine"}, {"id": "mine", "more": 1}])
async def test_an_unknown_id_starts_a_conversation_and_a_known_one_goes_on(
    conversation: Any, is_streamed: bool
) -> None:
    engine = in_turn(*(saying(f"Answer {n}") for n in range(3)))
    async with serving(engine) as served:
        for n in range(3):
            made = await ask(served, f"Question {n}", is_streamed, conversation=conversation)
            assert made.to_dict()["conversation"] == {"id": "mine"}
            assert made.previous_response_id is None
        kept = await served.openai.responses.retrieve(made.id)
        texts = await list_texts(served)
        conversation = await served.openai.conversations.retrieve("mine")
    assert kept == made
    assert texts == ["Question 0", "Answer 0", "Question 1", "Answer 1", "Question 2", "Answer 2"]
    said = [(user, assistant)[place % 2](text) for place, text in enumerate(texts)]
    assert engine.requests[2].messages == tuple(said[:5])
    assert (conversation.id, conversation.metadata) == ("mine", {})


@pytest.mark.parametrize("name", ["a/b", "/", ".", "..", "", "x" * 513])
async def test_what_no_route_could_name_is_no_conversation(name: str) -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        for conversation, param in ((name, "conversation"), ({"id": name}, "conversation.id")):
            status, told = await post(served, input="Hi", conversation=conversation)
            error = told["error"]
            assert (status, error["param"], error["code"]) == (400, param, "invalid_value")
    assert engine.requests == []


@pytest.mark.parametrize("name", ["a b", "🙂", "%2F", "?x=1#y", "...", "x" * 512])
async def test_a_conversation_may_be_called_anything_else(name: str) -> None:
    async with serving(playing(*HELLO)) as served:
        await ask(served, conversation=name)
        assert (await served.openai.conversations.retrieve(name)).id == name


async def test_a_conversation_that_was_created_goes_on() -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        items: Any = [message(role="developer", content="Rhyme."), message(content="One")]
        made = await converse(served, *items, a="b")
        await ask(served, "Two", conversation=made.id, instructions="Sing.")
        await ask(served, "Three", conversation=made.id)
        assert await served.openai.conversations.retrieve(made.id) == made
    asked = [ChatMessage("system", "Rhyme."), user("One"), user("Two")]
    assert engine.requests[0].messages == (ChatMessage("system", "Sing."), *asked)
    assert engine.requests[1].messages == (*asked, assistant("Hello"), user("Three"))


async def test_what_is_appended_is_what_was_asked_and_answered_under_the_same_ids() -> None:
    engine = in_turn(THINKS_AND_CALLS, HELLO)
    async with serving(engine) as served:
        first = await ask(served, "Go.", conversation="mine")
        ids = [item.call_id for item in first.output if item.type == "function_call"]
        given = [output(call_id=call_id) for call_id in ids]
        second = await ask(served, given, conversation="mine")
        asked = (await served.http.get(f"/v1/responses/{second.id}/input_items?order=asc")).json()
        items = await list_items(served)
    assert items[1:5] == [item.to_dict() for item in first.output]
    assert items[-1] == second.output[0].to_dict()
    assert items[:-1] == asked["data"]
    assert engine.requests[1].messages[:3] == (
        user("Go."),
        ChatMessage("assistant", "", "Rain?", (ToolCall(ids[0], "f", '{"city":"Rome"}'),)),
        ChatMessage("assistant", "", "Time?", (ToolCall(ids[1], "f", "{}"),)),
    )


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("script", "texts"),
    [
        (HELLO, ["Hi", "Hello"]),
        (saying("Hel", reason="length"), ["Hi", "Hel"]),
        (saying(), ["Hi", ""]),
    ],
    ids=["completed", "incomplete", "empty"],
)
async def test_a_response_that_has_ended_well_is_appended(
    script: Sequence[Step], texts: list[str], is_streamed: bool
) -> None:
    async with serving(playing(*script)) as served:
        await ask(served, "Hi", is_streamed, conversation="mine")
        assert await list_texts(served) == texts


FAILURE = GenerationFailedError("The model ran out of memory.")


async def test_a_response_that_fails_is_not_appended() -> None:
    engine = playing(GenerationStarted(5), TextDelta("Hel", 1), FAILURE)
    async with serving(engine) as served:
        made = await converse(served, message(content="One"))
        for name in (made.id, "mine"):
            assert (await ask(served, is_streamed=True, conversation=name)).status == "failed"
            assert (await post(served, input="Hi", conversation=name))[0] == 500
        assert await list_texts(served, made.id) == ["One"]
        assert (await served.http.get("/v1/conversations/mine")).status_code == 404


async def test_a_response_that_is_cancelled_is_not_appended() -> None:
    engine = in_turn(HELLO, [GenerationStarted(5), TextDelta("1, ", 1), asyncio.Event()], HELLO)
    async with serving(engine) as served:
        await ask(served, "One", conversation="mine")
        running = asyncio.create_task(ask(served, "Count.", conversation="mine"))
        await engine.held.wait()
        await served.openai.responses.cancel("resp_2")
        cancelled = await running
        assert await list_texts(served) == ["One", "Hello"]
        await ask(served, "Two", conversation="mine")
    assert (cancelled.status, cancelled.to_dict()["conversation"]) == ("cancelled", {"id": "mine"})
    assert engine.requests[2].messages == (user("One"), assistant("Hello"), user("Two"))


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_response_that_is_not_stored_reads_a_conversation_and_leaves_it(
    is_streamed: bool,
) -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        await ask(served, "One", conversation="mine")
        made = await ask(served, "Psst!", is_streamed, conversation="mine", store=False)
        await ask(served, "Psst!", is_streamed, conversation="other", store=False)
        assert await list_texts(served) == ["One", "Hello"]
        assert (await served.http.get("/v1/conversations/other")).status_code == 404
    assert made.to_dict()["conversation"] == {"id": "mine"}
    assert engine.requests[1].messages == (user("One"), assistant("Hello"), user("Psst!"))


async def test_a_response_of_a_conversation_is_there_to_be_read_before_its_end_is_told() -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        stream = await open_stream(served, "One", conversation="mine")
        while (await anext(stream)).type != "response.completed":
            reply = await served.http.get("/v1/conversations/mine")
            assert reply.status_code == 404
        await ask(served, "Two", conversation="mine")
        assert [event async for event in stream] == []
    assert engine.requests[1].messages == (user("One"), assistant("Hello"), user("Two"))


async def test_a_conversation_that_is_deleted_while_a_response_runs_stays_deleted() -> None:
    go_on = asyncio.Event()
    engine = in_turn(HELLO, [GenerationStarted(5), go_on, *HELLO[1:]], HELLO)
    async with serving(engine) as served:
        await ask(served, "One", conversation="mine")
        running = asyncio.create_task(ask(served, "Two", conversation="mine"))
        await engine.held.wait()
        await served.openai.conversations.delete("mine")
        assert (await served.http.get("/v1/conversations/mine")).status_code == 404
        go_on.set()
        made = await running
        assert (await served.http.get("/v1/conversations/mine")).status_code == 404
        assert await served.openai.responses.retrieve(made.id) == made
        await ask(served, "Three", conversation="mine")
        assert await list_texts(served) == ["Three", "Hello"]
    assert made.status == "completed"
    assert engine.requests[2].messages == (user("Three"),)


async def test_one_that_took_the_name_of_a_deleted_conversation_gets_nothing_of_it() -> None:
    go_on = asyncio.Event()
    engine = in_turn(HELLO, [GenerationStarted(5), go_on, *HELLO[1:]], saying("New"))
    async with serving(engine) as served:
        await ask(served, "One", conversation="mine")
        running = asyncio.create_task(ask(served, "Two", conversation="mine"))
        await engine.held.wait()
        await served.openai.conversations.delete("mine")
        await ask(served, "Three", conversation="mine")
        go_on.set()
        await running
        assert await list_texts(served) == ["Three", "New"]


@pytest.mark.parametrize("is_known", [False, True])
async def test_two_responses_at_once_are_appended_one_after_the_other(is_known: bool) -> None:
    both = [asyncio.Event(), asyncio.Event()]
    scripts = [[GenerationStarted(5), both[n], *saying(f"To {n}")[1:]] for n in range(2)]
    engine = in_turn(*([HELLO] if is_known else []), *scripts)
    async with serving(engine) as served:
        if is_known:
            await ask(served, "Before", conversation="mine")
        running = []
        for n in range(2):
            engine.held.clear()
            running.append(asyncio.create_task(ask(served, f"Say {n}", conversation="mine")))
            await engine.held.wait()
        for n in (1, 0):
            both[n].set()
            assert (await running[n]).output_text == f"To {n}"
        texts = await list_texts(served)
    before = ["Before", "Hello"] if is_known else []
    assert texts == [*before, "Say 1", "To 1", "Say 0", "To 0"]
    shown = [request.messages[-1:] for request in engine.requests[-2:]]
    assert shown == [(user("Say 0"),), (user("Say 1"),)]


async def test_items_that_are_added_while_a_response_runs_come_before_it() -> None:
    go_on = asyncio.Event()
    engine = in_turn(HELLO, [GenerationStarted(5), go_on, *saying("Two")[1:]])
    async with serving(engine) as served:
        await ask(served, "One", conversation="mine")
        running = asyncio.create_task(ask(served, "And?", conversation="mine"))
        await engine.held.wait()
        await add_items(served, "mine", message(content="PS"))
        go_on.set()
        await running
        assert await list_texts(served) == ["One", "Hello", "PS", "And?", "Two"]


async def test_an_item_that_is_taken_out_while_a_response_runs_stays_out() -> None:
    go_on = asyncio.Event()
    engine = in_turn(HELLO, [GenerationStarted(5), go_on, *saying("Two")[1:]])
    async with serving(engine) as served:
        await ask(served, "One", conversation="mine")
        running = asyncio.create_task(ask(served, "And?", conversation="mine"))
        await engine.held.wait()
        taken, _ = await list_items(served)
        await served.openai.conversations.items.delete(taken["id"], conversation_id="mine")
        go_on.set()
        await running
        assert await list_texts(served) == ["Hello", "And?", "Two"]


async def test_an_item_that_was_taken_out_is_not_shown_to_the_model() -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        await ask(served, "One", conversation="mine")
        items = await list_items(served)
        await served.openai.conversations.items.delete(items[0]["id"], conversation_id="mine")
        await ask(served, "Two", conversation="mine")
    assert engine.requests[1].messages == (assistant("Hello"), user("Two"))


async def test_a_chain_may_go_on_from_a_response_of_a_conversation_with_all_its_context() -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        await ask(served, "One", conversation="mine")
        second = await ask(served, "Two", conversation="mine")
        await ask(served, "Elsewhere", conversation="mine")
        await served.openai.conversations.delete("mine")
        third = await ask(served, "Three", previous_response_id=second.id)
        page = await served.http.get(f"/v1/responses/{third.id}/input_items?order=asc")
        assert (await served.http.get("/v1/conversations/mine")).status_code == 404
    asked = (user("One"), assistant("Hello"), user("Two"), assistant("Hello"), user("Three"))
    assert engine.requests[3].messages == asked
    assert "conversation" not in third.to_dict()
    assert len(page.json()["data"]) == 5


async def test_a_conversation_is_enough_to_answer() -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        await ask(served, "One", conversation="mine")
        assert (await post(served, conversation="mine"))[0] == 200
        status, told = await post(served, conversation="nothing in it")
    assert engine.requests[1].messages == (user("One"), assistant("Hello"))
    assert (status, told["error"]["code"]) == (400, "missing_required_parameter")
    assert len(engine.requests) == 2


async def test_the_tokens_of_a_conversations_input_are_counted_with_its_history() -> None:
    engine = ScriptedEngine(count)
    async with serving(engine) as served:
        await ask(served, "Once upon a time", conversation="mine")
        path = "/v1/responses/input_tokens"
        _, counted = await post(served, path, input="And then?", conversation="mine")
        assert (await post(served, path, input="Hi", conversation="other"))[0] == 200
        made = await ask(served, "And then?", conversation="mine")
        assert (await served.http.get("/v1/conversations/other")).status_code == 404
    assert made.usage is not None
    assert counted["input_tokens"] == made.usage.input_tokens == len("Once upon a timeAnd then?")


async def test_thoughts_of_a_conversation_come_back_with_their_turn() -> None:
    script = [
        GenerationStarted(5),
        *thinking("Hm"),
        TextDelta("Hi", 2),
        GenerationFinished("stop", 2),
    ]
    engine = playing(*script)
    async with serving(engine) as served:
        for _ in range(2):
            await ask(served, "Hello", conversation="mine")
    assert engine.requests[1].messages[1] == ChatMessage("assistant", "Hi", "Hm")


# ── owners and bounds ────────────────────────────────────────────────────────────────────────────


async def test_one_name_under_two_keys_is_two_conversations() -> None:
    engine = playing(*HELLO)
    async with serving(engine, keys=[ALICE, BOB]) as served:
        for key in (ALICE, BOB):
            openai = served.openai.with_options(api_key=key)
            await openai.responses.create(model="scripted", input=key, conversation="mine")
        assert await list_texts(served) == [ALICE, "Hello"]
        served.http.headers["authorization"] = f"Bearer {BOB}"
        assert await list_texts(served) == [BOB, "Hello"]
        await served.http.delete("/v1/conversations/mine")
        served.http.headers["authorization"] = f"Bearer {ALICE}"
        assert await list_texts(served) == [ALICE, "Hello"]
    assert engine.requests[1].messages == (user(BOB),)


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/responses/input_tokens"])
@pytest.mark.parametrize("more", [{}, {"stream": True}, {"store": False}])
async def test_disabled_conversations_name_their_setting(path: str, more: Json) -> None:
    engine = playing(*HELLO)
    async with serving(engine, store=make_store(ROOMY, DISABLED)) as served:
        told = await post(served, path, input="Hi", conversation="mine", **more)
    setting = "Nothing is stored on this server: its setting `conversation_store_max_entries` is 0."
    assert told == refused(setting, None, "unsupported_value")
    assert engine.requests == []


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_conversation_does_not_depend_on_the_responses_that_are_kept(
    is_streamed: bool,
) -> None:
    engine = playing(*HELLO)
    async with serving(engine, store=make_store(DISABLED, ROOMY)) as served:
        for text in ("One", "Two"):
            made = await ask(served, text, is_streamed, conversation="mine")
            assert made.to_dict()["store"] is False
        assert await list_texts(served) == ["One", "Hello", "Two", "Hello"]
    assert engine.requests[1].messages == (user("One"), assistant("Hello"), user("Two"))


async def test_a_response_that_is_deleted_stays_in_its_conversation() -> None:
    go_on = asyncio.Event()
    engine = in_turn(HELLO, [GenerationStarted(5), go_on])
    async with serving(engine) as served:
        made = await ask(served, "One", conversation="mine")
        await served.openai.responses.delete(made.id)
        running = asyncio.create_task(ask(served, "Two", conversation="mine"))
        await engine.held.wait()
        await served.openai.responses.delete("resp_2")
        assert (await running).status == "cancelled"
        assert await list_texts(served) == ["One", "Hello"]


async def test_a_conversation_without_bytes_is_forgotten_with_the_response() -> None:
    engine = playing(*HELLO)
    store = make_store(ROOMY, replace(ROOMY, max_bytes=0))
    async with serving(engine, store=store) as served:
        for _ in range(2):
            assert (await ask(served, conversation="mine")).status == "completed"
        assert (await served.http.get("/v1/conversations/mine")).status_code == 404
    assert engine.requests[1].messages == (user("Hi"),)


async def test_a_conversation_of_a_running_response_does_not_go() -> None:
    now_s, go_on = [0.0], asyncio.Event()
    engine = in_turn(HELLO, [GenerationStarted(5), go_on, *HELLO[1:]])
    store = make_store(ROOMY, replace(ROOMY, max_entries=1, ttl_s=60), clock=lambda: now_s[0])
    async with serving(engine, store=store) as served:
        await ask(served, "One", conversation="mine")
        running = asyncio.create_task(ask(served, "Two", conversation="mine"))
        await engine.held.wait()
        now_s[0] = 100.0
        for _ in range(2):
            await converse(served)
        go_on.set()
        await running
        assert await list_texts(served) == ["One", "Hello", "Two", "Hello"]
        replies = [await served.http.get(f"/v1/conversations/conv_{n}") for n in (1, 2)]
    assert [reply.status_code for reply in replies] == [404, 404]


async def test_an_append_renews_a_conversation() -> None:
    now_s = [0.0]
    engine = playing(*HELLO)
    store = make_store(ROOMY, replace(ROOMY, ttl_s=60), clock=lambda: now_s[0])
    async with serving(engine, store=store) as served:
        for now_s[0] in (0.0, 50.0, 100.0):
            await ask(served, conversation="mine")
        now_s[0] = 161.0
        await ask(served, conversation="mine")
    assert [len(request.messages) for request in engine.requests] == [1, 3, 5, 1]


async def test_a_response_that_its_conversation_cannot_keep_has_failed() -> None:
    engine, store = playing(*HELLO), ObservedStore()
    store.records.broken = StoreFaultError("The disk is full.")
    async with serving(engine, store=store) as served:
        made = await ask(served, is_streamed=True, conversation="mine")
        status, told = await post(served, input="Hi", conversation="mine")
    assert (made.status, status) == ("failed", 500)
    assert "disk" not in str(told)


# ── what a model cannot be shown ─────────────────────────────────────────────────────────────────


async def test_a_picture_of_a_conversation_is_refused_by_the_name_of_the_conversation() -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        made = await converse(served, message(content=[image()]))
        status, told = await post(served, input="Hi", conversation=made.id)
    error = told["error"]
    found = (status, error["param"], error["code"])
    assert found == (400, "conversation", "unsupported_value")
    assert engine.requests == []
