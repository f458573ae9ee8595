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
from engine.errors import EngineError, Refusal
from engine.types import EngineEvent, EngineStats, GenerateRequest, ModelCard
from stores.errors import StoreError
from stores.types import ResponseRecord

logger = logging.getLogger(__name__)

# How long a short call may take, a replica's restart included; generations have no such limit.
CALL_S = 20.0


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
                return await getattr(handle, method).remote(*args)

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
        num_tokens: int | Refusal = await self._handle.call("count_tokens", request, timeout_s=None)
        if isinstance(num_tokens, Refusal):
            raise num_tokens
        return num_tokens

    async def abort(self, generation_id: str) -> bool:
        return any(await self._handle.call_all("abort", generation_id))


class HandleStoreClient:
    """`deployments.service.responses.ResponseStoreClient` over the store's application.

    It holds one call open to the store, so that the store learns of this process's death.
    """

    def __init__(self, application: str, ingress: str) -> None:
        """`ingress` names this process among all that use the store."""
        self._handle = ApplicationHandle(application, "store")
        self._ingress = ingress
        self._attending: asyncio.Task[None] | None = None

    async def begin(self, record: ResponseRecord, model: str, is_stored: bool) -> bool:
        if self._attending is None or self._attending.done():
            # In no request's context, or Serve might end the call with the request that began it.
            self._attending = asyncio.create_task(self._attend(), context=Context())
        is_kept: bool = await self._handle.call("begin", record, model, is_stored, self._ingress)
        return is_kept

    async def _attend(self) -> None:
        try:
            handle = (await self._handle.get()).options(stream=True)
            async for _ in as_stream(handle.attend.remote(self._ingress)):
                logger.info("the store knows this process as %s", self._ingress)
        except (RayError, RayServeException, UnavailableError) as error:
            logger.warning("the store is away, the next response looks for it: %s", error)

    async def finish(self, record: ResponseRecord, is_stored: bool) -> None:
        await self._handle.call("finish", record, is_stored)

    async def get(self, response_id: str, owner: str) -> ResponseRecord | None:
        record: ResponseRecord | None = await self._handle.call("get", response_id, owner)
        return record

    async def delete(self, response_id: str, owner: str) -> bool:
        is_deleted: bool = await self._handle.call("delete", response_id, owner)
        return is_deleted

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
