"""A response that goes on from another: the engine is shown all that went before."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from deployments.authentication import EVERYONE
from deployments.translate.response_input import PlacedItem, to_records
from deployments.wire.responses_items import InputMessage
from engine.types import ChatMessage, GenerationFinished, GenerationStarted, TextDelta, ToolCall
from stores.types import ItemRecord, ResponseRecord
from tests.support.asking import (
    CUT_IN_A_CALL,
    THINKS_AND_CALLS,
    ask,
    assistant,
    count,
    in_turn,
    open_stream,
    post,
    refused,
    user,
)
from tests.support.observed import ObservedStore
from tests.support.scripted import CARD, ScriptedEngine, Step, saying, thinking
from tests.support.serving import make_store, playing, serving
from tests.support.spots import function, image, message, output

EMPTY = (
    "The request has no effective input: give 'input' or 'instructions' some text.",
    "input",
    "missing_required_parameter",
)


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("num_turns", [1, 2, 5])
async def test_every_turn_before_reaches_the_engine(num_turns: int, is_streamed: bool) -> None:
    engine = in_turn(*(saying(f"Answer {n}") for n in range(num_turns + 1)))
    async with serving(engine) as served:
        parent = None
        for n in range(num_turns + 1):
            made = await ask(
                served, f"Question {n}", is_streamed, previous_response_id=parent, store=True
            )
            assert (made.previous_response_id, made.output_text) == (parent, f"Answer {n}")
            parent = made.id
    turns = [turn for n in range(num_turns) for turn in (f"Question {n}", f"Answer {n}")]
    said = [(user, assistant)[place % 2](text) for place, text in enumerate(turns)]
    assert engine.requests[-1].messages == (*said, user(f"Question {num_turns}"))


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_what_a_response_goes_on_from_is_repeated_wherever_it_is_read(prefix: str) -> None:
    async with serving(playing(*saying("Hello"))) as served:
        _, first = await post(served, f"{prefix}/responses", input="Hi")
        _, second = await post(
            served, f"{prefix}/responses", input="And?", previous_response_id=first["id"]
        )
        kept = (await served.http.get(f"{prefix}/responses/{second['id']}")).json()
    assert first["previous_response_id"] is None
    assert second["previous_response_id"] == first["id"]
    assert kept == second


async def test_what_was_asked_of_the_parent_alone_is_not_carried_over() -> None:
    engine = playing(*saying("Hello"))
    own: dict[str, Any] = {"tools": [function()], "temperature": 0.1, "metadata": {"a": "b"}}
    async with serving(engine) as served:
        first = await ask(served, instructions="Sing.", **own)
        second = await ask(served, "And?", previous_response_id=first.id)
        await ask(served, "So?", previous_response_id=second.id, instructions="Rhyme.")
    assert [request.messages[0] for request in engine.requests] == [
        ChatMessage("system", "Sing."),
        user("Hi"),
        ChatMessage("system", "Rhyme."),
    ]
    assert ChatMessage("system", "Sing.") not in engine.requests[2].messages
    assert (engine.requests[1].tools, engine.requests[1].sampling.temperature) == ((), 0.7)
    assert (second.instructions, second.metadata) == (None, {})


async def test_thoughts_and_calls_come_back_in_their_order() -> None:
    engine = in_turn(THINKS_AND_CALLS, saying("Rain."), saying("Bye."))
    async with serving(engine) as served:
        first = await ask(served, "Go.", tools=[function()])
        ids = [item.call_id for item in first.output if item.type == "function_call"]
        given = [output(call_id=call_id, output=f"for {call_id}") for call_id in ids]
        second = await ask(served, given, previous_response_id=first.id)
        await ask(served, "Thanks.", previous_response_id=second.id)
    rome, now = ToolCall(ids[0], "f", '{"city":"Rome"}'), ToolCall(ids[1], "f", "{}")
    went_before = (
        user("Go."),
        ChatMessage("assistant", "", "Rain?", (rome,)),
        ChatMessage("assistant", "", "Time?", (now,)),
        ChatMessage("tool", f"for {ids[0]}", call_id=ids[0]),
        ChatMessage("tool", f"for {ids[1]}", call_id=ids[1]),
    )
    assert engine.requests[1].messages == went_before
    assert engine.requests[2].messages == (*went_before, assistant("Rain."), user("Thanks."))


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    "script",
    [
        saying("Hello"),
        saying(),
        saying("Hel", reason="length"),
        THINKS_AND_CALLS,
        CUT_IN_A_CALL,
        [GenerationStarted(5), *thinking("Hm"), GenerationFinished("length", 1)],
        [GenerationStarted(5), *thinking("Hm"), TextDelta("Hi", 2), GenerationFinished("stop", 2)],
    ],
    ids=["text", "nothing", "cut", "thoughts and calls", "cut in a call", "thoughts", "both"],
)
async def test_a_chain_is_what_a_client_would_send_itself(
    script: Sequence[Step], is_streamed: bool
) -> None:
    engine = playing(*script)
    begins: list[Any] = [message(role="developer", content="Rhyme."), message(content="Go.")]
    async with serving(engine) as served:
        first = await ask(served, begins, is_streamed)
        await ask(served, "And?", is_streamed, previous_response_id=first.id)
        by_hand = [*begins, *first.output, message(content="And?")]
        await ask(served, by_hand, is_streamed, store=False)
    assert engine.requests[1].messages == engine.requests[2].messages
    assert len(engine.requests[1].messages) == (4 if script is not THINKS_AND_CALLS else 5)


async def test_a_cancelled_response_can_be_gone_on_from() -> None:
    engine = in_turn([GenerationStarted(5), TextDelta("1, ", 1), asyncio.Event()], saying("2"))
    async with serving(engine) as served:
        waiting = asyncio.create_task(ask(served, "Count."))
        await engine.held.wait()
        await served.openai.responses.cancel("resp_1")
        assert (await waiting).status == "cancelled"
        await ask(served, "Go on.", previous_response_id="resp_1")
    assert engine.requests[1].messages == (user("Count."), assistant("1, "), user("Go on."))


async def test_two_that_go_on_from_one_know_nothing_of_each_other() -> None:
    engine = playing(*saying("Hello"))
    async with serving(engine) as served:
        first = await ask(served)
        await ask(served, "Left?", previous_response_id=first.id)
        await asyncio.gather(
            *(ask(served, text, previous_response_id=first.id) for text in ("Right?", "Up?"))
        )
    assert {request.messages for request in engine.requests[1:]} == {
        (user("Hi"), assistant("Hello"), user(text)) for text in ("Left?", "Right?", "Up?")
    }


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_response_that_is_not_stored_goes_on_and_leaves_no_trace(is_streamed: bool) -> None:
    engine, store = playing(*saying("Hello")), ObservedStore()
    async with serving(engine, store=store) as served:
        first = await ask(served)
        unkept = await ask(served, "Psst!", is_streamed, previous_response_id=first.id, store=False)
        assert (await served.http.get(f"/v1/responses/{unkept.id}")).status_code == 404
        assert await served.openai.responses.retrieve(first.id) == first
        await ask(served, "And?", previous_response_id=first.id)
    assert engine.requests[1].messages == (user("Hi"), assistant("Hello"), user("Psst!"))
    assert engine.requests[2].messages == (user("Hi"), assistant("Hello"), user("And?"))
    assert (store.ends[1].response_id, store.ends[1].input) == (unkept.id, ())


@pytest.mark.parametrize("store", [True, None])
async def test_a_chained_request_in_the_instant_of_the_end_finds_its_parent(store: Any) -> None:
    """By the id of `response.created`, before the stream has said that it is done."""
    engine = in_turn(saying("Hello"), *[saying("Yes.")] * 20)
    async with serving(engine) as served:
        stream = await open_stream(served, store=store)
        created = (await anext(stream)).response
        while (await anext(stream)).type != "response.completed":
            pass
        chained = (
            ask(served, "And?", number % 2 == 0, previous_response_id=created.id)
            for number in range(20)
        )
        assert {made.output_text for made in await asyncio.gather(*chained)} == {"Yes."}
        assert [event async for event in stream] == []
    assert {request.messages for request in engine.requests[1:]} == {
        (user("Hi"), assistant("Hello"), user("And?"))
    }


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_the_tokens_of_a_chained_input_are_counted_with_its_history(prefix: str) -> None:
    engine = ScriptedEngine(count)
    async with serving(engine) as served:
        first = await ask(served, "Once upon a time")
        body: dict[str, Any] = {"input": "And then?", "previous_response_id": first.id}
        counted = await post(served, f"{prefix}/responses/input_tokens", **body)
        assert len(engine.requests) == 1
        made = await ask(served, body["input"], previous_response_id=first.id)
        alone = await ask(served, "And then?")
    assert made.usage is not None
    assert alone.usage is not None
    expected = {"object": "response.input_tokens", "input_tokens": made.usage.input_tokens}
    assert counted == (200, expected)
    assert made.usage.input_tokens == alone.usage.input_tokens + len("Once upon a time")


@pytest.mark.parametrize("text", [None, "", " \n", [], [message(content=[])]])
async def test_a_history_is_enough_to_answer(text: Any) -> None:
    engine = playing(*saying("Hello"))
    async with serving(engine) as served:
        first = await ask(served)
        made = await post(served, input=text, previous_response_id=first.id)
    assert made[0] == 200
    assert engine.requests[1].messages[:2] == (user("Hi"), assistant("Hello"))


@pytest.mark.parametrize("text", [None, "", " ", []])
async def test_a_history_of_blanks_is_not_enough(text: Any) -> None:
    engine = in_turn(saying())
    async with serving(engine) as served:
        first = await ask(served, None, instructions="Say nothing.")
        told = await post(served, input=text, previous_response_id=first.id)
    assert told == refused(*EMPTY)
    assert len(engine.requests) == 1


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}])
@pytest.mark.parametrize("path", ["/v1/responses", "/v1/responses/input_tokens"])
async def test_a_response_goes_on_from_one_thing(path: str, conversation: Any) -> None:
    engine = playing(*saying("Hello"))
    async with serving(engine) as served:
        first = await ask(served)
        both = {"previous_response_id": first.id, "conversation": conversation}
        status, told = await post(served, path, input="Hi", **both)
    error = told["error"]
    assert (status, error["param"], error["code"]) == (400, "conversation", "unsupported_value")
    assert "'previous_response_id'" in error["message"]
    assert len(engine.requests) == 1


async def test_a_chain_may_go_from_a_model_to_another() -> None:
    thinks = in_turn([GenerationStarted(5), *thinking("Hm."), *saying("Hello")[1:]])
    plain = replace(playing(*saying("Hi")), shown=replace(CARD, name="plain", aliases=()))
    async with serving(thinks, plain) as served:
        first = await ask(served)
        made = await ask(served, "And?", model="plain", previous_response_id=first.id)
    assert (made.model, made.output_text) == ("plain", "Hi")
    assert plain.requests[0].messages == (
        user("Hi"),
        ChatMessage("assistant", "Hello", "Hm."),
        user("And?"),
    )


async def test_a_picture_of_a_chain_is_refused_by_the_name_of_the_parent() -> None:
    seeing = ScriptedEngine(lambda _: saying("Hello"), replace(CARD, media=("image",)))
    blind = ScriptedEngine(lambda _: saying("Hi"), replace(CARD, name="blind", aliases=()))
    async with serving(seeing, blind) as served:
        first = await ask(served, [message(content=[image()])])
        body: dict[str, Any] = {"model": "blind", "input": "And?"}
        status, told = await post(served, previous_response_id=first.id, **body)
    error = told["error"]
    found = (status, error["param"], error["code"])
    assert found == (400, "previous_response_id", "unsupported_value")
    assert blind.requests == []


async def test_a_chain_may_be_a_thousand_deep() -> None:
    engine, store = playing(*saying("Hello")), make_store()
    async with serving(engine, store=store) as served:
        first = await ask(served)
        parent = await store.get(first.id, EVERYONE)
        assert parent is not None
        for number in range(1000):
            parent = make_child(parent, number)
            await store.finish(parent, is_stored=True)
        made = await ask(served, "And?", previous_response_id=parent.response_id)
        page = await served.openai.responses.input_items.list(made.id, order="asc", limit=1)
        assert page.data[0].to_dict()["content"] == [{"type": "input_text", "text": "Hi"}]
    assert engine.requests[1].messages == (
        *(user("Hi"), assistant("Hello")),
        *(user("Go on."), assistant("Hello")) * 1000,
        user("And?"),
    )


def make_child(parent: ResponseRecord, number: int) -> ResponseRecord:
    """A response to "Go on." with the answer of its parent."""
    question = PlacedItem(InputMessage(role="user", content="Go on."), "input")
    (answer,) = parent.output
    return replace(
        parent,
        response_id=f"resp_deep_{number}",
        parent_id=parent.response_id,
        input=to_records([question], f"seed {number}"),
        output=(ItemRecord(f"msg_deep_{number}", answer.body),),
    )


async def test_no_chain_is_a_circle() -> None:
    """A response has no id before it is made, and what it goes on from has ended before."""
    engine = playing(*saying("Hello"))
    async with serving(engine) as served:
        itself = await post(served, input="Hi", previous_response_id="resp_1")
        assert itself[1]["error"]["code"] == "previous_response_not_found"
        assert engine.requests == []
