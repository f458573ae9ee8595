"""Where there are keys, nothing but health is answered without one, and nobody sees another's."""

import asyncio
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI, AuthenticationError, NotFoundError
from starlette.types import Message, Scope

from engine.types import GenerationStarted, TextDelta
from tests.support.exchange import to_scope
from tests.support.observed import ObservedStore
from tests.support.scripted import saying
from tests.support.serving import URL, playing, serving

ALICE, BOB = "sk-alice-1", "sk-bob-22"
ASK: dict[str, Any] = {"model": "scripted", "input": "Hi"}
MISSING = "No API key was sent: send the header 'Authorization: Bearer KEY'."
WRONG = "The API key is not one of this server's."

ROUTES = [
    ("POST", "/responses"),
    ("GET", "/responses/resp_1"),
    ("DELETE", "/responses/resp_1"),
    ("POST", "/responses/resp_1/cancel"),
    ("GET", "/models"),
    ("GET", "/models/scripted"),
    ("GET", "/metrics"),
    ("PUT", "/models"),
    ("GET", "/nowhere"),
    ("GET", "/health/"),
    ("GET", "//health"),
    ("GET", "/health/../models"),
]


def check_refused(reply: httpx2.Response, message: str) -> None:
    assert (reply.status_code, reply.json()) == (
        401,
        {
            "error": {
                "message": message,
                "type": "authentication_error",
                "param": None,
                "code": "invalid_api_key",
            }
        },
    )
    assert reply.headers["www-authenticate"] == "Bearer"
    assert reply.headers["x-request-id"]


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_without_a_key_every_route_is_refused_also_one_that_is_not_there(
    method: str, path: str, prefix: str
) -> None:
    engine = playing(*saying("Hello"))
    async with serving(engine, keys=[ALICE]) as served:
        del served.http.headers["authorization"]
        check_refused(await served.http.request(method, prefix + path), MISSING)
        wrong = {"authorization": f"Bearer {BOB}"}
        check_refused(await served.http.request(method, prefix + path, headers=wrong), WRONG)
    assert engine.requests == []


async def test_health_needs_no_key() -> None:
    async with serving(playing(), keys=[ALICE]) as served:
        for headers in ({"authorization": "Bearer wrong"}, {"authorization": ""}, {}):
            served.http.headers.pop("authorization", None)
            assert (await served.http.get("/health", headers=headers)).status_code == 200
        assert (await served.http.post("/health")).status_code == 405


async def test_openais_client_with_one_of_the_keys_is_served() -> None:
    async with serving(playing(*saying("Hello")), keys=[ALICE, BOB]) as served:
        for key in (ALICE, BOB):
            openai = served.openai.with_options(api_key=key)
            assert (await openai.responses.create(**ASK)).output_text == "Hello"
            assert [model.id async for model in openai.models.list()] == ["scripted"]
        assert (await served.http.get("/metrics")).status_code == 200


async def test_openais_client_with_another_key_is_told_so() -> None:
    async with serving(playing(), keys=[ALICE]) as served:
        with pytest.raises(AuthenticationError) as caught:
            await served.openai.with_options(api_key="sk-mallory").models.list()
    assert (caught.value.code, caught.value.type) == ("invalid_api_key", "authentication_error")


async def test_without_keys_whatever_is_sent_is_served() -> None:
    async with serving(playing(*saying("Hello"))) as served:
        for authorization in (b"Bearer anything", b"Basic eA==", b"\xe9", b""):
            headers = {b"authorization": authorization}
            assert (await served.http.get("/v1/models", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        [b"Bearer sk-alice-1", b"Bearer sk-alice-1"],
        [b"Basic c2stYWxpY2UtMQ=="],
        [b""],
        [b"\xff\xfe\x00"],
        [b"Bearer " + "sk-alice-\N{SUPERSCRIPT ONE}".encode()],
        [b"Bearer " + b"x" * 1_000_000],
    ],
)
async def test_a_caller_is_refused_before_its_body_is_read_and_no_key_is_logged(
    sent: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    async def receive() -> Message:
        raise AssertionError("the body is read")

    async def send(message: Message) -> None:
        replies.append(message)

    replies: list[Message] = []
    caplog.set_level("DEBUG")
    async with serving(playing(), keys=[ALICE]) as served:
        scope: Scope = to_scope(httpx2.Request("POST", f"{URL}/v1/responses"))
        scope["headers"] = [(b"authorization", value) for value in sent]
        await served.app(scope, receive, send)
    assert replies[0]["status"] == 401
    told = caplog.text.encode() + replies[1]["body"]
    assert b"is refused" in told
    assert not any(word in told for word in (b"alice", b"c2st", b"xxxx"))


async def test_one_key_does_not_see_the_responses_of_another() -> None:
    async with serving(playing(*saying("Hello")), keys=[ALICE, BOB]) as served:
        mine = await served.openai.responses.create(**ASK)
        await check_is_unknown(served.openai.with_options(api_key=BOB), mine.id)
        assert await served.openai.responses.retrieve(mine.id) == mine
        assert await served.openai.responses.cancel(mine.id) == mine
        await served.openai.responses.delete(mine.id)
        await check_is_unknown(served.openai, mine.id)


async def test_one_key_does_not_stop_the_running_response_of_another() -> None:
    never = asyncio.Event()
    store = ObservedStore()
    engine = playing(GenerationStarted(5), TextDelta("1, ", 1), never, *saying("2")[1:])
    async with serving(engine, store=store, keys=[ALICE, BOB]) as served:
        waiting = asyncio.create_task(served.openai.responses.create(**ASK))
        await store.wait_begun()
        await engine.held.wait()
        await check_is_unknown(served.openai.with_options(api_key=BOB), "resp_1")
        never.set()
        assert (await waiting).status == "completed"


async def check_is_unknown(openai: AsyncOpenAI, response_id: str) -> None:
    """It must look as an id that nobody has: not a word may differ."""
    for call in (openai.responses.retrieve, openai.responses.cancel, openai.responses.delete):
        told = []
        for name in (response_id, "resp_999"):
            with pytest.raises(NotFoundError) as caught:
                await call(name)
            told.append(caught.value.message.replace(name, "it"))
        assert told[0] == told[1]
