"""A response that is read as it grows."""

import asyncio
from typing import Any

import pytest
from openai.types.responses import ResponseStreamEvent

from deployments.errors import UnavailableError
from engine.errors import EngineStoppedError, GenerationFailedError, QueueFullError
from engine.types import GenerationFinished, GenerationStarted, TextDelta, ToolCallDelta
from stores.errors import StoreError
from tests.support.observed import ObservedStore
from tests.support.resources import make_call, make_message, make_resource, make_usage
from tests.support.scripted import Step, calling, saying
from tests.support.serving import Served, playing, serving

ASK: dict[str, Any] = {"model": "scripted", "input": "Greet me."}
TEXT_EVENTS = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
]
STORE_FAILURE = {"code": "server_error", "message": "The response could not be stored."}


async def read_all(served: Served, **changes: Any) -> list[ResponseStreamEvent]:
    stream = await served.openai.responses.create(**{**ASK, **changes}, stream=True)
    return [event async for event in stream]


async def test_openais_client_follows_a_stream_to_its_final_response() -> None:
    async with (
        serving(playing(*saying("Hel", "lo"))) as served,
        served.openai.responses.stream(**ASK) as stream,
    ):
        assert [event.type async for event in stream] == TEXT_EVENTS
        final = await stream.get_final_response()
    assert (final.status, final.output_text) == ("completed", "Hello")
    assert final.usage is not None
    assert final.usage.to_dict() == make_usage(5, 2)


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_a_stream_is_server_sent_events_until_done(prefix: str) -> None:
    async with serving(playing(*saying("Hel", "lo"))) as served:
        reply = await served.http.post(f"{prefix}/responses", json={**ASK, "stream": True})
    lines = reply.text.split("\n")
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert reply.headers["cache-control"] == "no-cache"
    assert [line for line in lines if line.startswith("event:")] == [
        f"event: {name}" for name in TEXT_EVENTS
    ]
    assert lines[-4:] == ["", "data: [DONE]", "", ""]


async def test_what_is_streamed_is_what_is_stored() -> None:
    async with serving(playing(*saying("Hel", "lo"))) as served:
        *_, last = await read_all(served)
        stored = await served.openai.responses.retrieve("resp_1")
    assert last.type == "response.completed"
    assert last.response.to_dict() == stored.to_dict()


async def test_a_response_is_stored_before_its_end_is_told() -> None:
    async with serving(playing(*saying("Hello"))) as served:
        stream = await served.openai.responses.create(**ASK, stream=True)
        async for event in stream:
            stored = await served.openai.responses.retrieve("resp_1")
            is_last = event.type == "response.completed"
            assert stored.status == ("completed" if is_last else "in_progress")


async def test_each_event_is_sent_as_soon_as_it_is_there() -> None:
    engine = playing(*saying("Hel", "lo"))
    async with (
        serving(engine) as served,
        served.http.stream("POST", "/v1/responses", json={**ASK, "stream": True}) as reply,
    ):
        chunks = [chunk async for chunk in reply.aiter_raw()]
    assert [chunk.split(b"\n")[0] for chunk in chunks] == [
        *(f"event: {name}".encode() for name in TEXT_EVENTS),
        b"data: [DONE]",
    ]
    assert all(chunk.count(b"\n\n") == 1 for chunk in chunks)


async def test_a_failure_ends_a_stream_and_is_kept() -> None:
    failure = GenerationFailedError("The model ran out of memory.")
    script: list[Step] = [GenerationStarted(5), TextDelta("Hel", 1), failure]
    async with serving(playing(*script)) as served:
        *_, last = await read_all(served)
        stored = await served.http.get("/v1/responses/resp_1")
    expected = make_resource(
        status="failed",
        error={"code": "server_error", "message": "The model ran out of memory."},
        output=[make_message("Hel", status="incomplete")],
        output_text="Hel",
        usage=make_usage(5, 1),
    )
    assert last.type == "response.failed"
    assert last.response.to_dict() == stored.json() == expected


async def test_a_fault_that_nobody_expected_ends_a_stream_without_a_word_of_its_cause() -> None:
    fault = ValueError("/home/me/secret.py")
    async with serving(playing(GenerationStarted(5), TextDelta("Hel", 1), fault)) as served:
        *_, last = await read_all(served)
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert last.response.error.message == "The server had an internal error."


async def test_a_response_that_cannot_be_stored_has_failed() -> None:
    store = ObservedStore()
    store.records.broken = StoreError("the disk is full")
    async with serving(playing(*saying("Hello")), store=store) as served:
        *_, last = await read_all(served)
    assert last.type == "response.failed"
    assert last.response.to_dict() == make_resource(
        status="failed",
        error=STORE_FAILURE,
        output=[make_message("Hello")],
        output_text="Hello",
        usage=make_usage(5, 1),
    )


async def test_a_response_that_is_not_to_be_stored_needs_no_store() -> None:
    store = ObservedStore()
    store.records.broken = StoreError("the disk is full")
    async with serving(playing(*saying("Hello")), store=store) as served:
        *_, last = await read_all(served, store=False)
    assert last.type == "response.completed"


async def test_two_streams_at_once_do_not_mix() -> None:
    async with serving(playing(*saying("Hel", "lo"))) as served:
        first = await served.openai.responses.create(**ASK, stream=True)
        async with await served.openai.responses.create(**ASK, stream=True) as second:
            pairs = [(a, await anext(second)) async for a in first]
    assert [(a.type, b.type) for a, b in pairs] == [(name, name) for name in TEXT_EVENTS]
    assert [(a.sequence_number, b.sequence_number) for a, b in pairs] == [
        (n, n) for n in range(len(TEXT_EVENTS))
    ]


FIRST_FAILURES: list[tuple[Exception, int, str]] = [
    (QueueFullError(3), 429, "too_many_requests"),
    (GenerationFailedError("The prompt cannot be computed."), 500, "server_error"),
    (ValueError("/home/me/secret.py"), 500, "server_error"),
    (EngineStoppedError("thread 7 has ended"), 503, "server_busy"),
    (UnavailableError("The model is away."), 503, "server_busy"),
]


@pytest.mark.parametrize(("error", "status", "kind"), FIRST_FAILURES, ids=lambda e: str(e)[:20])
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_what_fails_before_the_first_byte_is_no_stream_and_leaves_no_record(
    is_streamed: bool, error: Exception, status: int, kind: str
) -> None:
    store = ObservedStore()
    async with serving(playing(error), store=store) as served:
        reply = await served.http.post("/v1/responses", json={**ASK, "stream": is_streamed})
        stored = await served.http.get("/v1/responses/resp_1")
    assert (reply.status_code, reply.json()["error"]["type"]) == (status, kind)
    assert reply.headers["content-type"] == "application/json"
    assert "secret" not in reply.text
    assert (stored.status_code, store.ends) == (404, [])


@pytest.mark.parametrize(
    "fault",
    [GenerationFailedError("Out of memory."), UnavailableError("away"), ValueError("broken")],
    ids=repr,
)
async def test_what_fails_after_the_first_byte_ends_a_stream_as_streams_end(
    fault: Exception,
) -> None:
    async with serving(playing(GenerationStarted(5), fault)) as served:
        reply = await served.http.post("/v1/responses", json={**ASK, "stream": True})
        stored = await served.openai.responses.retrieve("resp_1")
    *_, last, done, end = reply.text.split("\n\n")
    assert last.startswith("event: response.failed\n")
    assert (reply.status_code, done, end) == (200, "data: [DONE]", "")
    assert (stored.status, stored.output) == ("failed", [])


async def test_a_failure_in_the_middle_of_a_call_leaves_it_incomplete() -> None:
    failure = GenerationFailedError("The model ran out of memory.")
    script = [GenerationStarted(5), *calling("now", "{}"), *calling("find", '{"q":', before=3)[:-1]]
    async with serving(playing(*script, failure)) as served:
        *_, last = await read_all(served)
        stored = await served.http.get("/v1/responses/resp_1")
    expected = make_resource(
        status="failed",
        error={"code": "server_error", "message": "The model ran out of memory."},
        output=[make_call("now", "{}"), make_call("find", '{"q":', 2, status="incomplete")],
        usage=make_usage(5, 5),
    )
    assert last.type == "response.failed"
    assert last.response.to_dict() == stored.json() == expected


async def test_arguments_that_come_without_their_call_are_our_fault() -> None:
    script = (GenerationStarted(5), TextDelta("Hel", 1), ToolCallDelta("{", 2))
    async with serving(playing(script, asyncio.Event())) as served:
        *events, last = await read_all(served)
    assert [event.type for event in events[2:5]] == TEXT_EVENTS[2:5]
    assert last.type == "response.failed"
    assert last.response.output_text == "Hel"
    assert last.response.error is not None
    assert last.response.error.message == "The server had an internal error."


@pytest.mark.parametrize(
    ("limit", "num_calls"),
    [({"max_tool_calls": 1}, 1), ({"max_tool_calls": 2}, 2), ({"parallel_tool_calls": False}, 1)],
    ids=repr,
)
async def test_after_the_last_call_allowed_the_engine_is_stopped_and_the_response_completed(
    limit: dict[str, Any], num_calls: int
) -> None:
    calls = [*calling("now", "{}"), *calling("now", "{}", before=3), *calling("now", before=6)]
    engine = playing(GenerationStarted(5), *calls, asyncio.Event())
    tools = [{"type": "function", "name": "now", "parameters": None}]
    async with serving(engine) as served:
        *_, last = await read_all(served, tools=tools, **limit)
        assert (engine.closed, engine.held.is_set()) == (["resp_1"], False)
        stored = await served.http.get("/v1/responses/resp_1")
    assert last.type == "response.completed"
    assert last.response.to_dict() == stored.json()
    assert stored.json()["output"] == [make_call("now", "{}", n + 1) for n in range(num_calls)]
    assert stored.json()["usage"] == make_usage(5, 3 * num_calls)


@pytest.mark.parametrize("reason", ["stop", "length", "abort"])
async def test_nothing_comes_after_the_terminal_event(reason: Any) -> None:
    script = (GenerationStarted(5), GenerationFinished(reason, 1), TextDelta("late", 2))
    async with serving(playing(script, TextDelta("later", 3), asyncio.Event())) as served:
        reply = await served.http.post("/v1/responses", json={**ASK, "stream": True})
    assert "late" not in reply.text
    assert reply.text.endswith("}\n\ndata: [DONE]\n\n")
