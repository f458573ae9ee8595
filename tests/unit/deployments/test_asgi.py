"""What every HTTP exchange gets: an id, a bound on its body, JSON errors."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.asgi import (
    ERROR_HANDLERS,
    CatchAll,
    EventStreamReply,
    JsonReply,
    RefuseUpgrades,
    RequestId,
    RequireKey,
    choose_request_id,
    read_json_body,
)
from deployments.authentication import KeyRing
from deployments.errors import (
    NotFoundError,
    PayloadTooLargeError,
    UnsupportedMediaTypeError,
)
from engine.errors import QueueFullError
from stores.errors import StoreDisabledError

NEW_ID = re.compile(r"req_[0-9a-f]{32}")
INTERNAL = {
    "error": {
        "message": "The server had an internal error.",
        "type": "server_error",
        "param": None,
        "code": "server_error",
    }
}


def make_scope(**headers: str) -> Scope:
    """A POST; `content_type` stands for the header `content-type`."""
    raw = [(k.replace("_", "-").encode(), v.encode("latin-1")) for k, v in headers.items()]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "method": "POST",
        "path": "/here",
        "query_string": b"",
        "headers": raw,
        "state": {},
    }


def make_receive(*chunks: bytes) -> Receive:
    """The body in these pieces, then a client that has gone."""
    messages: list[Message] = [
        {"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks
    ]
    messages.append({"type": "http.request", "body": b"", "more_body": False})
    left = iter(messages)

    async def receive() -> Message:
        return next(left, {"type": "http.disconnect"})

    return receive


async def call(
    app: ASGIApp, scope: Scope, receive: Receive | None = None
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the app's reply."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive or make_receive(), send)
    start, *body = sent
    headers = {key.decode(): value.decode() for key, value in start["headers"]}
    return start["status"], headers, b"".join(each["body"] for each in body)


async def read(max_bytes: int, chunks: Iterable[bytes], **headers: str) -> bytes:
    return await read_json_body(Request(make_scope(**headers), make_receive(*chunks)), max_bytes)


@pytest.mark.parametrize("sent", ["a", "client 7/b:c", "x" * 128])
def test_a_clients_own_id_is_kept(sent: str) -> None:
    assert choose_request_id(sent) == sent


@pytest.mark.parametrize("sent", [None, "", "x" * 129, "é", "a\tb", "a\nb", "a\x7fb"])
def test_an_id_that_is_missing_or_unfit_is_replaced(sent: str | None) -> None:
    first, second = choose_request_id(sent), choose_request_id(sent)
    assert NEW_ID.fullmatch(first)
    assert NEW_ID.fullmatch(second)
    assert first != second


async def tell_id(scope: Scope, receive: Receive, send: Send) -> None:
    await Response(Request(scope).state.request_id)(scope, receive, send)


async def test_an_exchange_has_one_id_inside_and_outside() -> None:
    _, headers, body = await call(RequestId(tell_id, writes_header=True), make_scope())
    assert NEW_ID.fullmatch(headers["x-request-id"])
    assert body.decode() == headers["x-request-id"]


async def test_behind_a_proxy_that_writes_the_id_the_app_does_not() -> None:
    scope = make_scope(x_request_id="from the proxy")
    _, headers, body = await call(RequestId(tell_id, writes_header=False), scope)
    assert "x-request-id" not in headers
    assert body == b"from the proxy"


async def test_what_is_no_exchange_passes_by() -> None:
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    async def send(message: Message) -> None:
        raise AssertionError("nothing is sent")

    lifespan = {"type": "lifespan"}
    await RequestId(CatchAll(app), writes_header=True)(lifespan, make_receive(), send)
    assert seen == [{"type": "lifespan"}]


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "APPLICATION/JSON",
        "application/json; charset=utf-8",
        "application/vnd.api+json",
    ],
)
async def test_json_of_any_name_is_read(kind: str) -> None:
    assert await read(9, [b"{}"], content_type=kind) == b"{}"


async def test_a_body_that_does_not_say_what_it_is_is_read() -> None:
    assert await read(9, [b"{}"], content_encoding="identity") == b"{}"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("text/plain", "The content type 'text/plain' is not served; send application/json."),
        (
            "multipart/form-data; boundary=x",
            "The content type 'multipart/form-data' is not served; send application/json.",
        ),
        ("text/x+json", "The content type 'text/x+json' is not served; send application/json."),
        ("", "The content type '' is not served; send application/json."),
    ],
)
async def test_another_content_type_is_refused(kind: str, message: str) -> None:
    with pytest.raises(UnsupportedMediaTypeError) as caught:
        await read(9, [b"{}"], content_type=kind)
    assert caught.value.message == message


@pytest.mark.parametrize("encoding", ["gzip", "deflate, gzip", "br"])
async def test_a_compressed_body_is_refused(encoding: str) -> None:
    with pytest.raises(UnsupportedMediaTypeError, match="Compressed bodies are not served"):
        await read(9, [b"{}"], content_encoding=encoding)


@pytest.mark.parametrize("chunks", [[b"12345"], [b"1", b"", b"2345"], [b"12345", b""], []])
async def test_a_body_up_to_the_limit_is_read_in_whatever_pieces(chunks: list[bytes]) -> None:
    assert await read(5, chunks) == b"".join(chunks)


@pytest.mark.parametrize("chunks", [[b"123456"], [b"123", b"456"], [b"12345", b"", b"6"]])
async def test_a_body_beyond_the_limit_is_refused_in_whatever_pieces(chunks: list[bytes]) -> None:
    with pytest.raises(PayloadTooLargeError, match="The body is larger than 5 bytes"):
        await read(5, chunks)


async def test_a_body_that_says_too_large_a_length_is_not_even_read() -> None:
    async def receive() -> Message:
        raise AssertionError("nothing is read")

    for length in ("6", "9" * 5000):
        request = Request(make_scope(content_length=length), receive)
        with pytest.raises(PayloadTooLargeError):
            await read_json_body(request, 5)


async def test_the_rest_of_a_body_that_is_too_large_is_not_read() -> None:
    receive = make_receive(b"123456", b"never read")
    with pytest.raises(PayloadTooLargeError):
        await read_json_body(Request(make_scope(), receive), 5)
    assert (await receive())["body"] == b"never read"


@pytest.mark.parametrize("length", ["0", "x", "-1", "", "²"])
async def test_a_length_that_is_not_true_is_no_reason_to_refuse(length: str) -> None:
    assert await read(5, [b"12345"], content_length=length) == b"12345"


async def test_a_client_that_goes_while_it_sends_is_told_to_nobody() -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientDisconnect):
        await read_json_body(Request(make_scope(), receive), 5)


def make_raising_app(error: Exception) -> Starlette:
    async def raise_it(_: Request) -> Response:
        raise error

    return Starlette(
        routes=[Route("/here", raise_it, methods=["POST"])],
        middleware=[Middleware(RequestId, writes_header=True), Middleware(CatchAll)],
        exception_handlers=ERROR_HANDLERS,
    )


@pytest.mark.parametrize(
    ("error", "status", "envelope"),
    [
        (
            NotFoundError("No such thing.", "thing", "gone"),
            404,
            {"message": "No such thing.", "type": "not_found", "param": "thing", "code": "gone"},
        ),
        (
            StoreDisabledError("some_setting"),
            400,
            {
                "message": "Nothing is stored on this server: its setting `some_setting` is 0.",
                "type": "invalid_request_error",
                "param": None,
                "code": "unsupported_value",
            },
        ),
        (
            HTTPException(418, "I'm a teapot"),
            400,
            {
                "message": "The request cannot be read.",
                "type": "invalid_request_error",
                "param": None,
                "code": None,
            },
        ),
        (ValueError("/home/me/secret.py at 0x7f00"), 500, INTERNAL["error"]),
    ],
    ids=["service", "store", "http", "unexpected"],
)
async def test_an_error_becomes_an_envelope_with_an_id(
    error: Exception, status: int, envelope: dict[str, str | None]
) -> None:
    told, headers, body = await call(make_raising_app(error), make_scope(x_request_id="mine"))
    assert (told, json.loads(body)) == (status, {"error": envelope})
    assert headers == {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "x-request-id": "mine",
    }


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("POST", "/nowhere", 404, "No such route: POST /nowhere"),
        ("POST", "//é\n", 404, "No such route: POST //é\n"),
        ("PUT", "/here", 405, "The route /here does not take PUT."),
    ],
)
async def test_a_route_that_is_not_there_is_told_as_it_was_asked_for(
    method: str, path: str, status: int, message: str
) -> None:
    scope = {**make_scope(host="["), "method": method, "path": path, "query_string": b"\xff"}
    told, headers, body = await call(make_raising_app(ValueError()), scope)
    assert (told, json.loads(body)["error"]["message"]) == (status, message)
    assert headers.get("allow") == ("POST" if status == 405 else None)


async def test_an_error_that_passes_says_when_to_come_again() -> None:
    status, headers, _ = await call(make_raising_app(QueueFullError(3)), make_scope())
    assert (status, headers["retry-after"]) == (429, "2")


async def test_the_cause_of_an_unexpected_error_is_in_the_log_under_the_exchanges_id(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await call(make_raising_app(ValueError("the cause")), make_scope(x_request_id="mine"))
    assert caplog.messages == ["request mine failed"]
    assert "ValueError: the cause" in caplog.text


async def test_an_exchange_that_broke_off_after_its_first_byte_is_not_answered_twice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def break_off(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError("the cause")

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    with pytest.raises(ValueError, match="the cause"):
        await CatchAll(break_off)(make_scope(), make_receive(), send)
    assert sent == [{"type": "http.response.start", "status": 200, "headers": []}]
    assert "ValueError: the cause" in caplog.text


# WebSockets

KEY = "sk-alice-1234"
REFUSED = {
    "error": {
        "message": (
            "WebSockets are not served; send plain HTTP requests, with 'stream' for events."
        ),
        "type": "invalid_request_error",
        "param": None,
        "code": "upgrade_not_supported",
    }
}


def make_guarded_app(*keys: str, writes_header: bool = False) -> Starlette:
    """One route, `GET /here`, behind everything that an exchange passes."""

    async def here(_: Request) -> Response:
        return Response("here")

    route, health = Route("/here", here), Route("/health", here)
    return Starlette(
        routes=[route, health],
        middleware=[
            Middleware(RequestId, writes_header=writes_header),
            Middleware(CatchAll),
            Middleware(RequireKey, keys=KeyRing.of(keys), open_route=health),
            Middleware(RefuseUpgrades),
        ],
        exception_handlers=ERROR_HANDLERS,
    )


def make_handshake(path: str = "/here", **headers: str) -> Scope:
    """A WebSocket's handshake as a server that knows them hands it on."""
    scope = {**make_scope(**headers), "type": "websocket", "path": path}
    del scope["method"]
    return {**scope, "extensions": {"websocket.http.response": {}}}


def plain(scope: Scope) -> Scope:
    """A GET in the place of a POST."""
    return {**scope, "method": "GET"}


async def shake_hands(app: ASGIApp, scope: Scope) -> list[Message]:
    """What the app sends to a WebSocket's handshake."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent


@pytest.mark.parametrize("writes_header", [True, False])
@pytest.mark.parametrize("path", ["/here", "/health", "/nowhere"])
async def test_a_websocket_is_refused_in_json_wherever_it_is_asked_for(
    path: str, writes_header: bool
) -> None:
    app = make_guarded_app(writes_header=writes_header)
    start, body = await shake_hands(app, make_handshake(path, x_request_id="mine"))
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 426)
    assert (body["type"], json.loads(body["body"])) == ("websocket.http.response.body", REFUSED)
    assert dict(start["headers"]) == {
        b"content-type": b"application/json",
        b"content-length": str(len(body["body"])).encode(),
        b"x-request-id": b"mine",
    }


@pytest.mark.parametrize("path", ["/here", "/health", "/nowhere"])
async def test_a_websocket_without_a_key_is_told_nothing_else(path: str) -> None:
    app = make_guarded_app(KEY)
    for headers in ({}, {"authorization": "Bearer wrong"}):
        start, body = await shake_hands(app, make_handshake(path, **headers))
        assert start["status"] == 401
        assert dict(start["headers"])[b"www-authenticate"] == b"Bearer"
        assert json.loads(body["body"])["error"]["code"] == "invalid_api_key"
    start, _ = await shake_hands(app, make_handshake(path, authorization=f"Bearer {KEY}"))
    assert start["status"] == 426


@pytest.mark.parametrize("keys", [(), (KEY,)])
async def test_a_server_that_cannot_deny_a_handshake_in_words_closes_it(
    keys: tuple[str, ...],
) -> None:
    scope = make_handshake()
    del scope["extensions"]
    sent = await shake_hands(make_guarded_app(*keys), scope)
    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_a_websocket_may_not_control_the_proxy_either() -> None:
    scope = make_handshake(x_request_timeout_seconds="1")
    start, _ = await shake_hands(make_guarded_app(), scope)
    assert start["status"] == 400


@pytest.mark.parametrize(
    ("upgrade", "connection"),
    [
        ("websocket", "Upgrade"),
        ("WebSocket", "keep-alive, upgrade"),
        ("h2c , websocket", "upgrade"),
    ],
)
@pytest.mark.parametrize("path", ["/here", "/nowhere"])
async def test_a_handshake_that_the_server_took_for_a_plain_request_is_refused_too(
    path: str, upgrade: str, connection: str
) -> None:
    scope = plain(make_scope(upgrade=upgrade, connection=connection))
    status, _, body = await call(make_guarded_app(), {**scope, "path": path})
    assert (status, json.loads(body)) == (426, REFUSED)
    status, _, body = await call(make_guarded_app(KEY), {**scope, "path": path})
    assert (status, json.loads(body)["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"upgrade": "websocket"},
        {"connection": "upgrade"},
        {"upgrade": "h2c", "connection": "upgrade, http2-settings"},
        {"upgrade": "websocketish", "connection": "upgrade"},
        {"upgrade": "websocket", "connection": "close"},
    ],
)
async def test_what_is_no_handshake_is_answered(headers: dict[str, str]) -> None:
    status, _, body = await call(make_guarded_app(), plain(make_scope(**headers)))
    assert (status, body) == (200, b"here")


async def test_json_is_sent_as_utf_8() -> None:
    status, headers, body = await call(JsonReply({"a": "é\u2028"}, 201), make_scope())
    assert (status, body) == (201, '{"a":"é\u2028"}'.encode())
    assert headers == {"content-type": "application/json", "content-length": str(len(body))}


async def test_a_stream_of_events_is_neither_cached_nor_buffered() -> None:
    async def events() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"b"

    async def receive_for_ever() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    async def close() -> None:
        closed.append("closed")

    closed: list[str] = []
    reply = EventStreamReply(events(), {"x-more": "1"}, close)
    status, headers, body = await call(reply, make_scope(), receive_for_ever)
    assert (status, body, closed) == (200, b"ab", ["closed"])
    assert headers == {
        "cache-control": "no-cache",
        "x-accel-buffering": "no",
        "x-more": "1",
        "content-type": "text/event-stream; charset=utf-8",
    }
