"""The use cases' clients over Serve handles: the only place where Ray's errors are known."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any, cast

from ray import serve
from ray.exceptions import RayError, RayTaskError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle, DeploymentResponseGenerator

from deployments.errors import InternalError, UnavailableError
from deployments.service.records import RunningCall
from engine.errors import EngineError, Refusal
from engine.types import EngineEvent, EngineStats, GenerateRequest, ModelCard
from stores.errors import StoreError, StoreRefusal
from stores.types import (
    ConversationRecord,
    History,
    HistoryQuery,
    ItemPage,
    ItemRecord,
    PageQuery,
    ResponseRecord,
)

logger = logging.getLogger(__name__)

# How long a short call may take, a replica's restart included; generations have no such limit.
CALL_S = 20.0
RETRY_S = 0.2  # from a failed call to the next


@contextmanager
def own_errors(what: str) -> Iterator[None]:
    """Raise the errors of the other side as they were raised there, and its absence as such."""
    try:
        yield
    except RayTaskError as error:
        if isinstance(error.cause, EngineError | StoreError):
            raise error.cause from None
        logger.exception("a call to the %s failed", what)
        raise InternalError(f"The {what} had an internal error.", None, "server_error") from error
    except (RayError, RayServeException, TimeoutError) as error:
        raise UnavailableError(f"The {what} is away; try again soon.") from error


def as_stream(response: object) -> DeploymentResponseGenerator[Any]:
    """What a handle with `stream=True` returns; its type cannot say so."""
    return cast(DeploymentResponseGenerator[Any], response)


class ApplicationHandle:
    """The handle of another Serve application, looked up when it is first needed.

    Applications start in any order, so the look-up may fail for a while.
    """

    def __init__(self, application: str, what: str) -> None:
        self._application = application
        self._what = what
        self._handle: DeploymentHandle[Any] | None = None

    async def get(self) -> DeploymentHandle[Any]:
        """The handle.

        Raises:
            UnavailableError: where the application is not deployed yet.
        """
        if self._handle is None:
            with own_errors(self._what):
                self._handle = await asyncio.to_thread(serve.get_app_handle, self._application)
        return self._handle

    async def call(self, method: str, *args: object, timeout_s: float | None = CALL_S) -> Any:
        """Call a method on one replica; with `timeout_s` None the caller bounds the wait.

        Raises:
            UnavailableError: where no replica answers.
        """
        handle = await self.get()
        with own_errors(self._what):
            async with asyncio.timeout(timeout_s):
                result = await getattr(handle, method).remote(*args)
        if isinstance(result, Refusal | StoreRefusal):  # raised there, it would be an error's log
            raise result
        return result

    async def call_until(self, deadline_s: float, method: str, *args: object) -> Any:
        """Call a method that may be called twice, again and again while no replica answers.

        `deadline_s` is in the time of the event loop.

        Raises:
            UnavailableError: where none has answered by then.
        """
        loop = asyncio.get_running_loop()
        while True:
            try:
                return await self.call(method, *args, timeout_s=deadline_s - loop.time())
            except UnavailableError:
                if loop.time() + RETRY_S >= deadline_s:
                    raise
            await asyncio.sleep(RETRY_S)

    async def call_all(self, method: str, *args: object) -> list[Any]:
        """Call a method on every running replica; none is an empty list.

        One that dies meanwhile does not speak for the others: its error counts only if it is all
        there is.
        """
        handle = await self.get()
        with own_errors(self._what):
            async with asyncio.timeout(CALL_S):
                results = await handle.broadcast(method, *args).results_async(
                    return_exceptions=True
                )
            answers = [result for result in results if not isinstance(result, BaseException)]
            if results and not answers:
                raise results[0]
        return answers


class HandleEngineClient:
    """`deployments.router.EngineClient` over the application that serves a model."""

    def __init__(self, application: str) -> None:
        self._handle = ApplicationHandle(application, "model")

    async def card(self) -> ModelCard:
        card: ModelCard = await self._handle.call("card")
        return card

    async def stats(self) -> list[EngineStats]:
        return await self._handle.call_all("stats")

    async def generate(
        self, request: GenerateRequest
    ) -> AsyncGenerator[tuple[EngineEvent, ...], None]:
        handle = (await self._handle.get()).options(stream=True)
        with own_errors("model"):
            batches = as_stream(handle.generate.remote(request))
            try:
                async for batch in batches:
                    if isinstance(batch, Refusal):
                        raise batch
                    yield batch
            finally:
                batches.cancel()  # type: ignore[no-untyped-call]

    async def count_tokens(self, request: GenerateRequest) -> int:
        num_tokens: int = await self._handle.call("count_tokens", request, timeout_s=None)
        return num_tokens

    async def abort(self, generation_id: str) -> bool:
        return any(await self._handle.call_all("abort", generation_id))


class HandleStoreClient:
    """The clients of `deployments.service` over the store's application.

    It holds one call open to the store, so that the store learns of this process's death. Where the
    store is another process after a while, it is told what runs here. The calls that keep
    something for the end of a generation are repeated while the store is away.
    """

    def __init__(self, application: str, ingress: str) -> None:
        """`ingress` names this process among all that use the store."""
        self._handle = ApplicationHandle(application, "store")
        self._ingress = ingress
        self._attending: asyncio.Task[None] | None = None
        self._running: dict[str, RunningCall] = {}
        self._claiming = asyncio.Lock()

    async def begin(self, record: ResponseRecord, model: str, is_stored: bool) -> bool:
        if self._attending is None or self._attending.done():
            # In no request's context, or Serve might end the call with the request that began it.
            self._attending = asyncio.create_task(self._attend(), context=Context())
        self._running[record.response_id] = RunningCall(record, model, is_stored)
        try:
            is_kept: bool = await self._insist("begin", record, model, is_stored, self._ingress)
        except BaseException:
            self._running.pop(record.response_id, None)
            raise
        return is_kept

    async def finish(self, record: ResponseRecord, is_stored: bool) -> None:
        self._running.pop(record.response_id, None)
        async with self._claiming:  # a claim that is on its way names it, and must not come later
            pass
        await self._insist("finish", record, is_stored)

    async def _insist(self, method: str, *args: object) -> Any:
        """Call in no request's context: Serve cancels the calls of a request whose client leaves.

        One that the store has answered, but whose answer nobody takes, would be told for ever.
        """
        deadline_s = asyncio.get_running_loop().time() + CALL_S
        calling = self._handle.call_until(deadline_s, method, *args)
        return await asyncio.create_task(calling, context=Context())

    async def _attend(self) -> None:
        """Attend as long as this process lives: when the store goes, until it is back."""
        while True:
            try:
                handle = (await self._handle.get()).options(stream=True)
                async for _ in as_stream(handle.attend.remote(self._ingress)):
                    logger.info("the store knows this process as %s", self._ingress)
                    await self._claim()
            except (RayError, RayServeException, UnavailableError, StoreError) as error:
                logger.warning("the store is away, it is looked for: %s", error)
            await asyncio.sleep(RETRY_S)

    async def _claim(self) -> None:
        async with self._claiming:
            calls = tuple(self._running.values())
            if calls:
                await self._handle.call("claim", calls, self._ingress)

    async def read_history(self, query: HistoryQuery) -> History:
        history: History = await self._handle.call("read_history", query)
        return history

    async def get(self, response_id: str, owner: str) -> ResponseRecord | None:
        record: ResponseRecord | None = await self._handle.call("get", response_id, owner)
        return record

    async def delete(self, response_id: str, owner: str) -> bool:
        is_deleted: bool = await self._handle.call("delete", response_id, owner)
        return is_deleted

    async def list_input_items(
        self, response_id: str, owner: str, query: PageQuery
    ) -> ItemPage | None:
        page: ItemPage | None = await self._handle.call(
            "list_input_items", response_id, owner, query
        )
        return page

    async def watch(self, response_id: str, owner: str) -> str | None:
        model: str | None = await self._handle.call("watch", response_id, owner)
        return model

    async def wait_finished(
        self, response_id: str, owner: str, timeout_s: float
    ) -> ResponseRecord | None:
        record: ResponseRecord | None = await self._handle.call(
            "wait_finished", response_id, owner, timeout_s
        )
        return record

    async def create_conversation(
        self, record: ConversationRecord, items: tuple[ItemRecord, ...]
    ) -> None:
        await self._handle.call("create_conversation", record, items)

    async def get_conversation(self, conversation_id: str, owner: str) -> ConversationRecord | None:
        record: ConversationRecord | None = await self._handle.call(
            "get_conversation", conversation_id, owner
        )
        return record

    async def update_conversation(
        self, conversation_id: str, owner: str, metadata: str
    ) -> ConversationRecord | None:
        record: ConversationRecord | None = await self._handle.call(
            "update_conversation", conversation_id, owner, metadata
        )
        return record

    async def delete_conversation(self, conversation_id: str, owner: str) -> bool:
        is_deleted: bool = await self._handle.call("delete_conversation", conversation_id, owner)
        return is_deleted

    async def append_items(
        self, conversation_id: str, owner: str, items: tuple[ItemRecord, ...]
    ) -> bool:
        is_there: bool = await self._handle.call("append_items", conversation_id, owner, items)
        return is_there

    async def list_conversation_items(
        self, conversation_id: str, owner: str, query: PageQuery
    ) -> ItemPage | None:
        page: ItemPage | None = await self._handle.call(
            "list_conversation_items", conversation_id, owner, query
        )
        return page

    async def get_conversation_item(
        self, conversation_id: str, owner: str, item_id: str
    ) -> ItemRecord | None:
        item: ItemRecord | None = await self._handle.call(
            "get_conversation_item", conversation_id, owner, item_id
        )
        return item

    async def delete_conversation_item(
        self, conversation_id: str, owner: str, item_id: str
    ) -> ConversationRecord | None:
        record: ConversationRecord | None = await self._handle.call(
            "delete_conversation_item", conversation_id, owner, item_id
        )
        return record
