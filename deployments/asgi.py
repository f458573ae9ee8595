"""What every HTTP exchange gets, whatever its route: id, owner, bounded body, JSON errors."""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, cast

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.authentication import KeyRing
from deployments.errors import (
    AuthenticationError,
    InternalError,
    InvalidRequestError,
    MethodNotAllowedError,
    NotFoundError,
    PayloadTooLargeError,
    ServiceError,
    UnsupportedMediaTypeError,
    to_service_error,
)
from deployments.sse import encode_json
from deployments.wire.errors import to_error_body, to_error_headers, to_status
from engine.errors import EngineError
from stores.errors import StoreError

logger = logging.getLogger(__name__)

# Headers by which a client could tell Serve's proxy not to notice that it leaves, or to cut it.
CONTROL_HEADERS = ("x-request-disconnect-disabled", "x-request-timeout-seconds")
BODY_S = 60.0  # how long a body may take to come

AUTHORIZATION = b"authorization"
EXCHANGES = ("http", "websocket")
DENIAL = "websocket.http.response"  # the ASGI extension by which a handshake gets an HTTP reply
POLICY_VIOLATION = 1008  # RFC 6455, 7.4.1
UPGRADE_REQUIRED = 426
STARTS = ("http.response.start", f"{DENIAL}.start")

REQUEST_ID = "x-request-id"
MAX_REQUEST_ID_CHARACTERS = 128
MAX_TOLD_CHARACTERS = 256  # of what a client made up, in an error


class JsonReply(Response):
    """A JSON body in UTF-8."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encode_json(content)


class EventStreamReply(StreamingResponse):
    """Server-sent events. However the exchange ends, its generator is closed, then `close` called.

    `close` lets go of what stands behind the events: a generator that was never read, because the
    client went before the first byte, cannot.
    """

    def __init__(
        self, events: Any, headers: Mapping[str, str], close: Callable[[], Awaitable[None]]
    ) -> None:
        own = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        super().__init__(events, headers={**own, **headers}, media_type="text/event-stream")
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with aclosing(cast(Any, self.body_iterator)):
                await super().__call__(scope, receive, send)
        finally:
            await self._close()


class RequestId:
    """Gives every exchange an id: the client's own if it is short and printable, else a new one.

    Serve's proxy does the same one process earlier, and adds the header to every reply by itself;
    `writes_header` is False behind it, or clients would read it twice. It does not where a
    WebSocket is refused.
    """

    def __init__(self, app: ASGIApp, writes_header: bool) -> None:
        self._app = app
        self._writes_header = writes_header

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in EXCHANGES:
            await self._app(scope, receive, send)
            return
        sent = Headers(scope=scope).get(REQUEST_ID)
        # What the proxy has put on the reply is what the log must say, whatever it is.
        kept = sent[:MAX_REQUEST_ID_CHARACTERS] if sent and not self._writes_header else None
        request_id = kept or choose_request_id(sent)
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_with_id(message: Message) -> None:
            writes_header = self._writes_header or scope["type"] == "websocket"
            if writes_header and message["type"] in STARTS:
                MutableHeaders(scope=message)[REQUEST_ID] = request_id
            await send(message)

        await self._app(scope, receive, send_with_id)


class CatchAll:
    """Turns errors into replies; what nobody expected into a 500 without a word of its cause."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in EXCHANGES:
            await self._app(scope, receive, send)
            return
        has_started = False

        async def watch_send(message: Message) -> None:
            nonlocal has_started
            has_started = has_started or message["type"] in (*STARTS, "websocket.accept")
            await send(message)

        try:
            check_control_headers(Headers(scope=scope))
            await self._app(scope, receive, watch_send)
        except Exception as error:
            if has_started:
                logger.exception("an exchange broke off after its first byte")
                raise
            reply = await reply_to_error(HTTPConnection(scope), error)
            if scope["type"] == "websocket" and DENIAL not in scope.get("extensions", {}):
                await send({"type": "websocket.close", "code": POLICY_VIOLATION})
                return
            await reply(scope, receive, send)


class RequireKey:
    """Finds out whose every exchange is, before a route is looked for and the body is read.

    The `open_route` alone needs no key: the router's own match says whether it is meant.
    """

    def __init__(self, app: ASGIApp, keys: KeyRing, open_route: Route) -> None:
        self._app = app
        self._keys = keys
        self._open_route = open_route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in EXCHANGES and self._open_route.matches(scope)[0] is Match.NONE:
            sent = [value for name, value in scope["headers"] if name == AUTHORIZATION]
            scope.setdefault("state", {})["owner"] = self._keys.find_owner(sent)
        await self._app(scope, receive, send)


class RefuseUpgrades:
    """Answers 426 to what asks for a WebSocket: no route speaks it.

    It stands behind the check of keys, so that only who may ask is told.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if asks_for_websocket(scope):
            raise HTTPException(UPGRADE_REQUIRED)
        await self._app(scope, receive, send)


def asks_for_websocket(scope: Scope) -> bool:
    """Whether this is a WebSocket's handshake (RFC 6455, 4.1), also one that the server took for
    a plain request since it knows no WebSockets either."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return bool(scope["type"] == "websocket")
    headers = Headers(scope=scope)
    return "websocket" in list_tokens(headers, "upgrade") and "upgrade" in list_tokens(
        headers, "connection"
    )


def list_tokens(headers: Headers, name: str) -> set[str]:
    """The words of a header that is a list of them, in lower case."""
    return {token.strip().lower() for value in headers.getlist(name) for token in value.split(",")}


def choose_request_id(sent: str | None) -> str:
    if sent and len(sent) <= MAX_REQUEST_ID_CHARACTERS and sent.isascii() and sent.isprintable():
        return sent
    return f"req_{secrets.token_hex(16)}"


async def read_json_body(request: Request, max_bytes: int) -> bytes:
    """The body of a request that says it is JSON (or does not say what it is).

    Raises:
        UnsupportedMediaTypeError: for another content type or an encoding.
        PayloadTooLargeError: as soon as it is known; the rest is not read.
    """
    check_content_type(request.headers)
    too_large = PayloadTooLargeError(f"The body is larger than {max_bytes} bytes.")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > max_bytes:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise too_large
    except TimeoutError:
        raise InvalidRequestError(f"The body did not come within {BODY_S:.0f} s.") from None
    return bytes(body)


def check_control_headers(headers: Headers) -> None:
    for name in CONTROL_HEADERS:
        if name in headers:
            raise InvalidRequestError(f"The header '{name}' is not served.")


def check_content_type(headers: Headers) -> None:
    kind = headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not (
        kind.startswith("application/") and kind.endswith("+json")
    ):
        raise UnsupportedMediaTypeError(
            f"The content type '{kind[:MAX_TOLD_CHARACTERS]}' is not served; send application/json."
        )
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMediaTypeError("Compressed bodies are not served.")


async def reply_to_error(request: HTTPConnection, error: Exception) -> Response:
    """The one place where an error becomes a reply."""
    told = to_told(error, request)
    if isinstance(told, InternalError):
        logger.error(
            "request %s failed", request.state.request_id, exc_info=error, stack_info=False
        )
    else:
        logger.info("request %s is refused: %.500s", request.state.request_id, told.message)
    status, headers = to_status(told), to_error_headers(told)
    if is_upgrade_error(error):
        status = UPGRADE_REQUIRED
    if isinstance(error, HTTPException) and error.headers:
        headers.update(error.headers)
    if isinstance(told, AuthenticationError):
        headers["www-authenticate"] = "Bearer"
    return JsonReply(to_error_body(told), status_code=status, headers=headers)


def is_upgrade_error(error: Exception) -> bool:
    return isinstance(error, HTTPException) and error.status_code == UPGRADE_REQUIRED


def to_told(error: Exception, request: HTTPConnection) -> ServiceError:
    """What the caller is told of an error."""
    path = request.scope["path"][:MAX_TOLD_CHARACTERS]
    method = request.scope.get("method", "GET")
    match error:
        case HTTPException(status_code=404):
            return NotFoundError(f"No such route: {method} {path}")
        case HTTPException(status_code=405):
            return MethodNotAllowedError(f"The route {path} does not take {method}.")
        case HTTPException() if is_upgrade_error(error):
            return InvalidRequestError(
                "WebSockets are not served; send plain HTTP requests, with 'stream' for events.",
                None,
                "upgrade_not_supported",
            )
        case HTTPException() | ClientDisconnect():
            return InvalidRequestError("The request cannot be read.")
        case _:
            return to_service_error(error)


TOLD = (ServiceError, EngineError, StoreError, HTTPException, ClientDisconnect)
ERROR_HANDLERS: Mapping[Any, Callable[[HTTPConnection, Exception], Any]] = dict.fromkeys(
    TOLD, reply_to_error
)
