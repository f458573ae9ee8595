"""The use cases of the Responses API: create, stream, retrieve, delete, cancel."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from deployments.errors import (
    InternalError,
    NotFoundError,
    ServiceError,
    UnavailableError,
    to_service_error,
)
from deployments.resource.codec import decode_stored, encode_stored
from deployments.resource.events import ResponseEnded, StreamEvent
from deployments.resource.response import RequestEcho, Response, ResponseFailure, StoredResponse
from deployments.router import Route
from deployments.service.models import ModelDirectory
from deployments.translate.request import to_echo, to_generate_request
from deployments.translate.stream import ResponseStream
from deployments.wire.responses_request import CreateResponse
from engine.errors import EngineError
from engine.types import EngineEvent
from stores.errors import StoreError
from stores.types import ResponseRecord

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

CANCEL_S = 10.0  # a cancelled response ends within one step of the engine; more is a fault


class ResponseStoreClient(Protocol):
    """What the use cases need of the store, wherever it runs.

    It also knows the responses that run now, stored or not, so that any ingress can cancel them.
    All methods raise the store's errors, and `UnavailableError` where the store does not answer.
    """

    async def begin(self, record: ResponseRecord, model: str, is_stored: bool) -> bool:
        """Announce a response that starts; says whether it will be kept."""
        ...

    async def finish(self, record: ResponseRecord, is_stored: bool) -> None:
        """A response has ended; its final record is kept if it is to be and was not deleted."""
        ...

    async def get(self, response_id: str, owner: str) -> ResponseRecord | None: ...

    async def delete(self, response_id: str, owner: str) -> bool: ...

    async def watch(self, response_id: str, owner: str) -> str | None:
        """The model that generates a response now, None where nothing runs under that id.

        The final record of a watched response waits for one `wait_finished`, stored or not.
        """
        ...

    async def wait_finished(
        self, response_id: str, owner: str, timeout_s: float
    ) -> ResponseRecord | None:
        """The final record of a response that runs; None where it does not end in time."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside that the use cases depend on. `clock` gives seconds since the Unix epoch."""

    models: ModelDirectory
    store: ResponseStoreClient
    clock: Callable[[], float]
    make_id: Callable[[str], str]
    replica_wait_s: float


@dataclass(frozen=True, slots=True)
class RunningResponse:
    """A response whose generation has a place in an engine: nothing can refuse it any more."""

    owner: str
    is_kept: bool
    echo: RequestEcho
    machine: ResponseStream
    first: tuple[EngineEvent, ...]
    rest: AsyncGenerator[tuple[EngineEvent, ...], None]


class ResponsesService:
    """One method a use case. `owner` says whose response it is."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._tasks: set[asyncio.Task[Any]] = set()

    async def open(self, request: CreateResponse, owner: str) -> RunningResponse:
        """Start a response: all that can be refused is refused here, before a stream's first byte.

        Raises:
            ServiceError: where it cannot start.
        """
        route = await self._ports.models.find(request.model)
        response_id = self._ports.make_id("resp")
        generate_request = to_generate_request(request, route.card, response_id)
        rest = route.client.generate(generate_request)
        first = await self._first(rest)
        beginning = self._own(self._begin(request, owner, route, response_id, first, rest))
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            self._own(self._undo(beginning))
            raise

    async def _begin(
        self,
        request: CreateResponse,
        owner: str,
        route: Route,
        response_id: str,
        first: tuple[EngineEvent, ...],
        rest: AsyncGenerator[tuple[EngineEvent, ...], None],
    ) -> RunningResponse:
        machine = ResponseStream(
            response_id, request.model, self._now(), lambda: self._ports.make_id("msg")
        )
        is_wanted = request.store is not False
        echo = to_echo(request, route.card, is_wanted)
        record = to_record(StoredResponse(machine.response(), echo), owner)
        try:
            is_kept = await self._ports.store.begin(record, request.model, is_wanted)
        except BaseException:
            await rest.aclose()
            raise
        if is_kept != is_wanted:
            echo = to_echo(request, route.card, is_kept)
        return RunningResponse(owner, is_kept, echo, machine, first, rest)

    async def _undo(self, beginning: "asyncio.Task[RunningResponse]") -> None:
        """Close a response whose client left while the store was told of it."""
        with suppress(ServiceError, StoreError):
            await self.close(await beginning)

    async def create(self, request: CreateResponse, owner: str) -> StoredResponse:
        """Run a response to its end.

        Raises:
            ServiceError: where it cannot start, or fails.
        """
        running = await self.open(request, owner)
        async with aclosing(self.stream(running)) as events:
            async for event in events:
                if isinstance(event, ResponseEnded):
                    if event.response.failure is not None:
                        raise to_error(event.response.failure)
                    return StoredResponse(event.response, running.echo)
        raise AssertionError("a stream ends with its terminal event")

    async def stream(self, running: RunningResponse) -> AsyncGenerator[StreamEvent, None]:
        """The events of a response. It is stored before its terminal event is given out.

        Closing the generator, or cancelling the task that reads it, cancels the response.
        """
        try:
            for event in running.machine.start():
                yield event
            async with aclosing(self._drive(running)) as events:
                async for event in events:
                    if isinstance(event, ResponseEnded):
                        event = await asyncio.shield(self._own(self._finish(running, event)))
                    yield event
        finally:
            await self.close(running)

    async def close(self, running: RunningResponse) -> None:
        """Let go of a response, whether or not its stream was ever read; again, it does nothing.

        One that has not ended is cancelled.
        """
        if not running.machine.has_ended:
            running.machine.cancel()
            self._own(self._finish(running, ResponseEnded(running.machine.response())))
        await running.rest.aclose()

    async def retrieve(self, response_id: str, owner: str) -> StoredResponse:
        """A stored response, also while it runs.

        Raises:
            NotFoundError: where this owner has none.
        """
        record = await self._ports.store.get(response_id, owner)
        if record is None:
            raise self._unknown(response_id)
        return decode_stored(record.body)

    async def delete(self, response_id: str, owner: str) -> None:
        """Forget a stored response; one that runs is stopped too.

        Raises:
            NotFoundError: where this owner has none.
        """
        model = await self._ports.store.watch(response_id, owner)
        if not await self._ports.store.delete(response_id, owner):
            raise self._unknown(response_id)
        if model is not None:
            with suppress(ServiceError, EngineError):  # a model that is away generates nothing
                await self._abort(model, response_id)

    async def cancel(self, response_id: str, owner: str) -> StoredResponse:
        """Stop a response that runs; one that has ended is returned as it is.

        Raises:
            NotFoundError: where this owner has none.
        """
        model = await self._ports.store.watch(response_id, owner)
        if model is None:
            return await self.retrieve(response_id, owner)
        await self._abort(model, response_id)
        record = await self._ports.store.wait_finished(response_id, owner, CANCEL_S)
        if record is None:
            raise UnavailableError("The response did not stop in time.", None, "cancel_timeout")
        return decode_stored(record.body)

    async def _first(
        self, events: AsyncGenerator[tuple[EngineEvent, ...], None]
    ) -> tuple[EngineEvent, ...]:
        """The first events of a generation, or the reason why there are none."""
        try:
            async with asyncio.timeout(self._ports.replica_wait_s):
                return await anext(events)
        except TimeoutError:
            raise UnavailableError("The model is not ready; try again soon.") from None
        except EngineError as error:
            raise to_service_error(error) from error

    async def _drive(self, running: RunningResponse) -> AsyncGenerator[StreamEvent, None]:
        """Engine events through the state machine, to its end: any error is a failed response."""
        machine = running.machine
        try:
            for engine_event in running.first:
                for event in machine.feed(engine_event, self._now()):
                    yield event
            async for batch in running.rest:
                for engine_event in batch:
                    for event in machine.feed(engine_event, self._now()):
                        yield event
            if not machine.has_ended:
                raise RuntimeError("the engine's events stopped before the last one")
        except Exception as error:
            logger.exception("response %s failed", machine.response().response_id)
            if not machine.has_ended:
                told = to_service_error(error)
                for event in machine.fail(told.message, isinstance(told, UnavailableError)):
                    yield event

    def _own(self, work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
        """Work in a task of its own, which outlives a caller that is cancelled."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _finish(self, running: RunningResponse, ended: ResponseEnded) -> ResponseEnded:
        """Store a response that has ended; one that was to be stored and cannot be has failed."""
        stored = StoredResponse(ended.response, running.echo)
        try:
            await self._ports.store.finish(to_record(stored, running.owner), running.is_kept)
        except Exception:
            logger.exception("response %s is not stored", ended.response.response_id)
            if running.is_kept:
                return ResponseEnded(to_unstored(ended.response))
        return ended

    async def _abort(self, model: str, response_id: str) -> None:
        route = await self._ports.models.find(model)
        await route.client.abort(response_id)

    def _now(self) -> int:
        return int(self._ports.clock())

    def _unknown(self, response_id: str) -> NotFoundError:
        return NotFoundError(
            f"Response with id '{response_id}' not found.", "response_id", "not_found"
        )


def to_error(failure: ResponseFailure) -> ServiceError:
    """What a caller who does not stream is told of a response that failed."""
    if failure.is_temporary:
        return UnavailableError(failure.message)
    return InternalError(failure.message, None, failure.code)


def to_record(stored: StoredResponse, owner: str) -> ResponseRecord:
    response = stored.response
    return ResponseRecord(
        response_id=response.response_id,
        owner=owner,
        status=response.status,
        created_at=response.created_at,
        body=encode_stored(stored),
    )


def to_unstored(response: Response) -> Response:
    """A response that was to be stored and is not: whatever it was, it has failed."""
    return replace(
        response,
        status="failed",
        completed_at=None,
        incomplete_reason=None,
        failure=ResponseFailure("server_error", "The response could not be stored."),
    )
