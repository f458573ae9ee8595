"""The use cases of the Responses API: create, stream, count, retrieve, delete, cancel."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from deployments.errors import NotFoundError, ServiceError, UnavailableError
from deployments.resource.codec import decode_stored, encode_stored
from deployments.resource.events import ResponseEnded, StreamEvent
from deployments.resource.response import RequestEcho, Response, ResponseFailure, StoredResponse
from deployments.service.generation import Generation, Generations, to_error
from deployments.translate.request import to_echo, to_generate_request
from deployments.wire.responses_request import CreateResponse
from engine.errors import EngineError
from engine.types import ModelCard
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


@dataclass(slots=True)
class RunningResponse:
    """A response that the store knows of and that an engine generates.

    `is_over` says that the store is told of its end, or was.
    """

    owner: str
    is_kept: bool
    echo: RequestEcho
    generation: Generation
    is_over: bool = False

    @property
    def card(self) -> ModelCard:
        return self.generation.card


class ResponsesService:
    """One method a use case. `owner` says whose response it is."""

    def __init__(self, generations: Generations, store: ResponseStoreClient) -> None:
        self._generations = generations
        self._store = store
        self._tasks: set[asyncio.Task[Any]] = set()

    async def open(self, request: CreateResponse, owner: str) -> RunningResponse:
        """Start a response: all that can be refused is refused here, before a stream's first byte.

        Raises:
            ServiceError: where it cannot start.
        """
        make_request = partial(to_generate_request, request)
        generation = await self._generations.start(request.model, "resp", make_request)
        beginning = self._own(self._begin(request, owner, generation))
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            self._own(self._undo(beginning))
            raise

    async def _begin(
        self, request: CreateResponse, owner: str, generation: Generation
    ) -> RunningResponse:
        is_wanted = request.store is not False
        echo = to_echo(request, generation.card, is_wanted)
        record = to_record(StoredResponse(generation.machine.response(), echo), owner)
        try:
            is_kept = await self._store.begin(record, request.model, is_wanted)
        except BaseException:
            await generation.rest.close()
            raise
        if is_kept != is_wanted:
            echo = to_echo(request, generation.card, is_kept)
        return RunningResponse(owner, is_kept, echo, generation)

    async def _undo(self, beginning: "asyncio.Task[RunningResponse]") -> None:
        """Close a response whose client left while the store was told of it."""
        with suppress(ServiceError, StoreError):
            await self.close(await beginning)

    async def finish(self, running: RunningResponse) -> StoredResponse:
        """Run a response to its end.

        Raises:
            ServiceError: where it fails.
        """
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
            for event in running.generation.machine.start():
                yield event
            async with aclosing(self._generations.run(running.generation)) as events:
                async for event in events:
                    if isinstance(event, ResponseEnded):
                        running.is_over = True
                        event = await asyncio.shield(self._own(self._keep(running, event)))
                    yield event
        finally:
            await self.close(running)

    async def close(self, running: RunningResponse) -> None:
        """Let go of a response, whether or not its stream was ever read; again, it does nothing.

        One that has not ended is cancelled; one whose end was not read is kept as it ended.
        """
        machine = running.generation.machine
        if not running.is_over:
            running.is_over = True
            if not machine.has_ended:
                machine.cancel()
            self._own(self._keep(running, ResponseEnded(machine.response())))
        await running.generation.rest.close()

    async def count_input(self, request: CreateResponse) -> tuple[int, ModelCard]:
        """The tokens of a request's input, as its response's usage would count them.

        And the card of the model that counted.

        Raises:
            ServiceError: where they cannot be counted.
        """
        make_request = partial(to_generate_request, request)
        return await self._generations.count_tokens(request.model, make_request)

    async def retrieve(self, response_id: str, owner: str) -> StoredResponse:
        """A stored response, also while it runs.

        Raises:
            NotFoundError: where this owner has none.
        """
        record = await self._store.get(response_id, owner)
        if record is None:
            raise self._unknown(response_id)
        return decode_stored(record.body)

    async def delete(self, response_id: str, owner: str) -> None:
        """Forget a stored response; one that runs is stopped too.

        Raises:
            NotFoundError: where this owner has none.
        """
        model = await self._store.watch(response_id, owner)
        if not await self._store.delete(response_id, owner):
            raise self._unknown(response_id)
        if model is not None:
            with suppress(ServiceError, EngineError):  # a model that is away generates nothing
                await self._abort(model, response_id)

    async def cancel(self, response_id: str, owner: str) -> StoredResponse:
        """Stop a response that runs; one that has ended is returned as it is.

        Raises:
            NotFoundError: where this owner has none.
        """
        model = await self._store.watch(response_id, owner)
        if model is None:
            return await self.retrieve(response_id, owner)
        await self._abort(model, response_id)
        record = await self._store.wait_finished(response_id, owner, CANCEL_S)
        if record is None:
            raise UnavailableError("The response did not stop in time.", None, "cancel_timeout")
        return decode_stored(record.body)

    def _own(self, work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
        """Work in a task of its own, which outlives a caller that is cancelled."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _keep(self, running: RunningResponse, ended: ResponseEnded) -> ResponseEnded:
        """Store a response that has ended; one that was to be stored and cannot be has failed."""
        stored = StoredResponse(ended.response, running.echo)
        try:
            await self._store.finish(to_record(stored, running.owner), running.is_kept)
        except Exception:
            logger.exception("response %s is not stored", ended.response.response_id)
            if running.is_kept:
                return ResponseEnded(to_unstored(ended.response))
        return ended

    async def _abort(self, model: str, response_id: str) -> None:
        route = await self._generations.models.find(model)
        await route.client.abort(response_id)

    def _unknown(self, response_id: str) -> NotFoundError:
        return NotFoundError(
            f"Response with id '{response_id}' not found.", "response_id", "not_found"
        )


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
