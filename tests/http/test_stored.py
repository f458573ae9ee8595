"""Responses after they were made: read again, forgotten, or never kept."""

from typing import Any

import httpx2
import pytest
from openai import BadRequestError, NotFoundError

from stores.types import Bounds
from tests.support.resources import make_message, make_resource, make_usage
from tests.support.scripted import saying
from tests.support.serving import make_store, playing, serving

ASK: dict[str, Any] = {"model": "scripted", "input": "Greet me."}
HELLO = make_resource(
    status="completed",
    completed_at=1_700_000_004,
    output=[make_message("Hello")],
    output_text="Hello",
    usage=make_usage(5, 2),
)
ROUTES = [
    ("GET", "/responses/resp_1"),
    ("DELETE", "/responses/resp_1"),
    ("POST", "/responses/resp_1/cancel"),
]


def unknown(response_id: str) -> dict[str, Any]:
    return {
        "error": {
            "message": f"Response with id '{response_id}' not found.",
            "type": "not_found",
            "param": "response_id",
            "code": "not_found",
        }
    }


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_a_response_is_read_again_and_deleted(prefix: str) -> None:
    path = f"{prefix}/responses/resp_1"
    async with serving(playing(*saying("Hel", "lo"))) as served:
        await served.http.post(f"{prefix}/responses", json=ASK)
        kept = await served.http.get(path)
        deleted = await served.http.delete(path)
        gone = [await served.http.get(path), await served.http.delete(path)]
    assert (kept.status_code, kept.json()) == (200, HELLO)
    assert (deleted.status_code, deleted.json()) == (
        200,
        {"id": "resp_1", "object": "response.deleted", "deleted": True},
    )
    assert [(reply.status_code, reply.json()) for reply in gone] == [(404, unknown("resp_1"))] * 2


async def test_openais_client_reads_and_deletes() -> None:
    async with serving(playing(*saying("Hel", "lo"))) as served:
        made = await served.openai.responses.create(**ASK)
        assert await served.openai.responses.retrieve(made.id) == made
        await served.openai.responses.delete(made.id)
        with pytest.raises(NotFoundError):
            await served.openai.responses.retrieve(made.id)


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_an_id_that_nobody_was_given_is_not_found(
    prefix: str, method: str, path: str
) -> None:
    async with serving(playing()) as served:
        reply = await served.http.request(method, prefix + path)
    assert (reply.status_code, reply.json()) == (404, unknown("resp_1"))


@pytest.mark.parametrize("response_id", ["%00", "%F0%9F%99%82", "a%20b", "..%5C", "%FF"])
async def test_an_id_may_be_any_text(response_id: str) -> None:
    async with serving(playing()) as served:
        reply = await served.http.get(f"/v1/responses/{response_id}")
    assert reply.json() == unknown(httpx2.URL(f"http://x/{response_id}").path[1:])


@pytest.mark.parametrize("word", ["true", "True", "1", "yes"])
@pytest.mark.parametrize("suffix", ["", "&starting_after=3"])
async def test_a_response_cannot_be_streamed_again(word: str, suffix: str) -> None:
    async with serving(playing(*saying("Hello"))) as served:
        made = await served.http.post("/v1/responses", json=ASK)
        path = f"/v1/responses/{made.json()['id']}?stream={word}{suffix}"
        reply = await served.http.get(path)
    assert (reply.status_code, reply.json()) == (
        400,
        {
            "error": {
                "message": "Only a response made in the background can be streamed again.",
                "type": "invalid_request_error",
                "param": "stream",
                "code": "unsupported_value",
            }
        },
    )


async def test_a_response_has_no_events_to_go_on_from() -> None:
    async with serving(playing(*saying("Hello"))) as served:
        made = await served.http.post("/v1/responses", json=ASK)
        reply = await served.http.get(f"/v1/responses/{made.json()['id']}?starting_after=3")
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "starting_after")


async def test_openais_client_is_told_so() -> None:
    async with serving(playing(*saying("Hello"))) as served:
        made = await served.openai.responses.create(**ASK)
        with pytest.raises(BadRequestError) as caught:
            await served.openai.responses.retrieve(made.id, stream=True)
    assert caught.value.param == "stream"


@pytest.mark.parametrize("query", ["stream=false", "stream=False", "stream=0", "stream=", "x=1"])
async def test_a_response_that_is_not_to_be_streamed_is_read(query: str) -> None:
    async with serving(playing(*saying("Hel", "lo"))) as served:
        await served.http.post("/v1/responses", json=ASK)
        reply = await served.http.get(f"/v1/responses/resp_1?{query}")
    assert (reply.status_code, reply.json()) == (200, HELLO)


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_response_that_is_not_to_be_stored_is_not_found(is_streamed: bool) -> None:
    async with serving(playing(*saying("Hello"))) as served:
        await served.http.post("/v1/responses", json={**ASK, "store": False, "stream": is_streamed})
        reply = await served.http.get("/v1/responses/resp_1")
    assert reply.status_code == 404


async def test_a_disabled_store_lets_responses_be_made_and_says_so() -> None:
    store = make_store(Bounds(max_entries=0, max_bytes=1_000_000, ttl_s=60))
    async with serving(playing(*saying("Hel", "lo")), store=store) as served:
        reply = await served.http.post("/v1/responses", json={**ASK, "store": True})
    assert (reply.status_code, reply.json()) == (200, {**HELLO, "store": False})


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_a_disabled_store_names_its_setting(method: str, path: str) -> None:
    store = make_store(Bounds(max_entries=0, max_bytes=1_000_000, ttl_s=60))
    async with serving(playing(), store=store) as served:
        reply = await served.http.request(method, f"/v1{path}")
    assert (reply.status_code, reply.json()) == (
        400,
        {
            "error": {
                "message": "Nothing is stored on this server: its setting "
                "`responses_store_max_entries` is 0.",
                "type": "invalid_request_error",
                "param": None,
                "code": "unsupported_value",
            }
        },
    )


async def test_a_store_without_bytes_keeps_a_response_only_while_it_runs() -> None:
    store = make_store(Bounds(max_entries=10, max_bytes=0, ttl_s=60))
    async with serving(playing(*saying("Hello")), store=store) as served:
        stream = await served.openai.responses.create(**ASK, stream=True)
        assert (await anext(stream)).type == "response.created"
        assert (await served.openai.responses.retrieve("resp_1")).status == "in_progress"
        assert [event.type async for event in stream][-1] == "response.completed"
        with pytest.raises(NotFoundError):
            await served.openai.responses.retrieve("resp_1")


async def test_the_least_recently_used_response_is_forgotten_first() -> None:
    store = make_store(Bounds(max_entries=1, max_bytes=1_000_000, ttl_s=60))
    async with serving(playing(*saying("Hello")), store=store) as served:
        for _ in range(2):
            await served.openai.responses.create(**ASK)
        replies = [await served.http.get(f"/v1/responses/resp_{n}") for n in (1, 2)]
    assert [reply.status_code for reply in replies] == [404, 200]


async def test_a_running_response_shows_what_was_known_at_its_beginning() -> None:
    async with serving(playing(*saying("Hello"))) as served:
        stream = await served.openai.responses.create(**ASK, stream=True)
        assert (await anext(stream)).type == "response.created"
        reply = await served.http.get("/v1/responses/resp_1")
        assert [event.type async for event in stream][-1] == "response.completed"
    assert reply.json() == make_resource()
