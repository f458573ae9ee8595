"""The use cases of the Responses API: create, stream, count, retrieve, list, delete, cancel."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from deployments.errors import NotFoundError, ServiceError, UnavailableError
from deployments.resource.events import ResponseEnded, StreamEvent
from deployments.resource.response import RequestEcho, StoredResponse
from deployments.service.generation import Generation, Generations, to_error
from deployments.service.records import to_record, to_stored, to_unstored, with_end
from deployments.translate.request import to_echo, to_generate_request
from deployments.translate.response_input import (
    ResponseInput,
    to_history_query,
    to_records,
    to_response_input,
)
from deployments.wire.responses_request import CreateResponse
from engine.errors import EngineError
from engine.types import ModelCard
from stores.errors import StoreError, StoreRefusal
from stores.types import (
    ConversationLink,
    History,
    HistoryQuery,
    ItemPage,
    PageQuery,
    ResponseRecord,
)

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

CANCEL_S = 10.0  # a cancelled response ends within one step of the engine; more is a fault


class ResponseStoreClient(Protocol):
    """What the use cases need of the store, wherever it runs (`stores.types.Store`).

    It also knows the responses that run now, stored or not, so that any ingress can cancel them.
    All methods raise the store's errors, and `UnavailableError` where the store does not answer.
    """

    async def read_history(self, query: HistoryQuery) -> History: ...

    async def begin(self, record: ResponseRecord, model: str, is_stored: bool) -> bool:
        """Announce a response that starts; says whether it will be kept.

        Raises:
            ParentGoneError: where its parent has gone since its history was read.
        """
        ...

    async def finish(self, record: ResponseRecord, is_stored: bool) -> None:
        """A response has ended; its final record is kept if it is to be and was not deleted."""
        ...

    async def get(self, response_id: str, owner: str) -> ResponseRecord | None: ...

    async def delete(self, response_id: str, owner: str) -> bool: ...

    async def list_input_items(
        self, response_id: str, owner: str, query: PageQuery
    ) -> ItemPage | None: ...

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

    `is_over` says that the store is told of its end, or was. A response that is to be stored may
    not be kept, where the store keeps none; its conversation still is told of it.
    """

    begun: ResponseRecord
    is_to_store: bool
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
            StoreError: where the store refuses it or fails.
        """
        history = await self._read_history(request, owner)
        given = to_response_input(request, history)
        make_request = partial(to_generate_request, request, given)
        generation = await self._generations.start(request.model, "resp", make_request)
        is_to_store = request.store is not False
        record = self._to_begun(request, generation, owner)
        if is_to_store:
            record = with_input(record, request, given, history)
        beginning = self._own(self._begin(request, record, is_to_store, generation))
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            self._own(self._undo(beginning))
            raise

    async def _read_history(self, request: CreateResponse, owner: str) -> History:
        query = to_history_query(request, owner)
        return History() if query is None else await self._store.read_history(query)

    def _to_begun(
        self, request: CreateResponse, generation: Generation, owner: str
    ) -> ResponseRecord:
        echo = to_echo(request, generation.card, request.store is not False)
        return to_record(StoredResponse(generation.machine.response(), echo), owner)

    async def _begin(
        self,
        request: CreateResponse,
        record: ResponseRecord,
        is_to_store: bool,
        generation: Generation,
    ) -> RunningResponse:
        try:
            is_kept = await self._store.begin(record, request.model, is_to_store)
        except StoreRefusal:
            await generation.rest.close()
            raise
        except BaseException:
            await generation.rest.close()
            self._own(self._take_back(record, is_to_store))
            raise
        echo = to_echo(request, generation.card, is_kept)
        return RunningResponse(record, is_to_store, is_kept, echo, generation)

    async def _take_back(self, record: ResponseRecord, is_to_store: bool) -> None:
        """Forget a beginning that the store may have heard of or not."""
        with suppress(ServiceError, StoreError):
            if is_to_store and not await self._store.delete(record.response_id, record.owner):
                return
            await self._store.finish(replace(record, status="cancelled"), is_to_store)

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

    async def count_input(self, request: CreateResponse, owner: str) -> tuple[int, ModelCard]:
        """The tokens of a request's input, as its response's usage would count them.

        And the card of the model that counted.

        Raises:
            ServiceError: where they cannot be counted.
        """
        given = to_response_input(request, await self._read_history(request, owner))
        make_request = partial(to_generate_request, request, given)
        return await self._generations.count_tokens(request.model, make_request)

    async def retrieve(self, response_id: str, owner: str) -> StoredResponse:
        """A stored response, also while it runs.

        Raises:
            NotFoundError: where this owner has none.
        """
        record = await self._store.get(response_id, owner)
        if record is None:
            raise self._unknown(response_id)
        return to_stored(record)

    async def list_input_items(self, response_id: str, owner: str, query: PageQuery) -> ItemPage:
        """A page of what a response went on from and was asked.

        Raises:
            NotFoundError: where this owner has no such response.
            UnknownItemError: where the page is to begin behind an item that is not there.
        """
        page = await self._store.list_input_items(response_id, owner, query)
        if page is None:
            raise self._unknown(response_id)
        return page

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
        return to_stored(record)

    def _own(self, work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
        """Work in a task of its own, which outlives a caller that is cancelled."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _keep(self, running: RunningResponse, ended: ResponseEnded) -> ResponseEnded:
        """Store a response that has ended; one that was to be stored and cannot be has failed."""
        record = to_record(StoredResponse(ended.response, running.echo), running.begun.owner)
        try:
            await self._store.finish(with_end(running.begun, record), running.is_to_store)
        except Exception:
            logger.exception("response %s is not stored", ended.response.response_id)
            if running.is_kept or running.begun.conversation is not None:
                return ResponseEnded(to_unstored(ended.response))
        return ended

    async def _abort(self, model: str, response_id: str) -> None:
        route = await self._generations.models.find(model)
        await route.client.abort(response_id)

    def _unknown(self, response_id: str) -> NotFoundError:
        return NotFoundError(
            f"Response with id '{response_id}' not found.", "response_id", "not_found"
        )


def with_input(
    record: ResponseRecord, request: CreateResponse, given: ResponseInput, history: History
) -> ResponseRecord:
    """The record of a response that is to be stored, with what it goes on from and is asked."""
    own = to_records(given.own, record.response_id)
    if request.conversation_id is None:
        return replace(record, parent_id=request.previous_response_id, input=own)
    link = ConversationLink(
        request.conversation_id, history.conversation_serial, len(history.items)
    )
    return replace(record, conversation=link, input=(*history.items, *own))
