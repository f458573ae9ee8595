"""The use cases' clients over Serve handles: the only place where Ray's errors are known."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Any, cast

from ray import serve
from ray.exceptions import RayError, RayTaskError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle, DeploymentResponseGenerator

from deployments.errors import InternalError, UnavailableError
from engine.errors import EngineError
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

    async def call(self, method: str, *args: object) -> Any:
        """Call a method on one replica.

        Raises:
            UnavailableError: where no replica answers.
        """
        handle = await self.get()
        with own_errors(self._what):
            async with asyncio.timeout(CALL_S):
                return await getattr(handle, method).remote(*args)

    async def call_all(self, method: str, *args: object) -> list[Any]:
        """Call a method on every running replica; none is an empty list."""
        handle = await self.get()
        with own_errors(self._what):
            async with asyncio.timeout(CALL_S):
                return list(await handle.broadcast(method, *args).results_async())


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
            batches = cast(
                DeploymentResponseGenerator[tuple[EngineEvent, ...]],
                handle.generate.remote(request),
            )
            try:
                async for batch in batches:
                    yield batch
            finally:
                batches.cancel()  # type: ignore[no-untyped-call]

    async def abort(self, generation_id: str) -> bool:
        return any(await self._handle.call_all("abort", generation_id))


class HandleStoreClient:
    """`deployments.service.responses.ResponseStoreClient` over the store's application."""

    def __init__(self, application: str) -> None:
        self._handle = ApplicationHandle(application, "store")

    async def begin(self, record: ResponseRecord, model: str, is_stored: bool) -> bool:
        is_kept: bool = await self._handle.call("begin", record, model, is_stored)
        return is_kept

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
