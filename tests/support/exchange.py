"""HTTP over an ASGI app in this process, as a server carries it: no socket and no buffer."""

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

import httpx2
from starlette.types import ASGIApp, Message, Scope

from tests.support.scripted import wait_first

HangUp = Literal["tell", "cancel"]

PATIENCE_S = 10.0  # an app that takes longer for one step has lost its way


class Exchange(httpx2.AsyncByteStream):
    """One request and its reply.

    The app waits in `send` until the client asks for more: what a client sees has happened before
    the app goes on. To close the reply before its end is to hang up: uvicorn lets the app `receive`
    that (`tell`), Serve cancels the app's task (`cancel`). What is sent after that is lost.
    """

    def __init__(self, app: ASGIApp, scope: Scope, body: bytes, hang_up: HangUp) -> None:
        self._unread: bytes | None = body
        self._hang_up = hang_up
        self._sent: asyncio.Queue[Message | None] = asyncio.Queue()
        self._is_seen = False
        self._wants_more = asyncio.Event()
        self._is_gone = asyncio.Event()
        self._task = asyncio.create_task(self._run(app, scope))

    async def next_message(self) -> Message | None:
        """What the app sends next, None after its end.

        Raises:
            Exception: what the app raised.
        """
        if self._is_seen:
            self._wants_more.set()
        async with asyncio.timeout(PATIENCE_S):
            message = await self._sent.get()
        self._is_seen = message is not None
        if message is None:
            await self._end()
        return message

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (message := await self.next_message()) is not None:
            if message.get("body"):
                yield message["body"]

    async def aclose(self) -> None:
        """Hang up, where the app has not ended, and wait until it has.

        Raises:
            Exception: what the app raised.
        """
        self._is_gone.set()
        if self._hang_up == "cancel":
            self._task.cancel()
        await self._end()

    async def _end(self) -> None:
        done, _ = await asyncio.wait([self._task], timeout=PATIENCE_S)
        assert done, "the app does not end"
        if not self._task.cancelled():
            self._task.result()

    async def _run(self, app: ASGIApp, scope: Scope) -> None:
        try:
            await app(scope, self._receive, self._send)
        finally:
            self._sent.put_nowait(None)

    async def _receive(self) -> Message:
        if self._unread is not None:
            body, self._unread = self._unread, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._is_gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if not self._is_gone.is_set():
            self._wants_more.clear()
            self._sent.put_nowait(message)
            await wait_first(self._wants_more, self._is_gone)


class AppTransport(httpx2.AsyncBaseTransport):
    """Carries the requests of an `httpx2.AsyncClient` to an app."""

    def __init__(self, app: ASGIApp, hang_up: HangUp = "tell") -> None:
        self._app = app
        self._hang_up = hang_up

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        exchange = Exchange(self._app, to_scope(request), body, self._hang_up)
        try:
            start = await exchange.next_message()
        except asyncio.CancelledError:
            await exchange.aclose()
            raise
        assert start is not None, "the app ended without a reply"
        return httpx2.Response(start["status"], headers=start["headers"], stream=exchange)


def to_scope(request: httpx2.Request) -> Scope:
    """What uvicorn makes of a request."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.partition(b"?")[0],
        "query_string": request.url.query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": ("127.0.0.1", 50_000),
        "server": (request.url.host, 80),
    }
