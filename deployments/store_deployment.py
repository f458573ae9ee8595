"""The one process that holds the responses: the store itself, and which responses run now."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace

from cachetools import TTLCache

from deployments.resource.codec import decode_stored, encode_stored
from deployments.resource.response import ResponseFailure
from stores.types import ResponseRecord, ResponseStore

# How many final records, and for how many seconds, wait for a caller who watches them.
MAX_WATCHED, WATCHED_S = 1024, 30.0


@dataclass(slots=True)
class _Running:
    record: ResponseRecord
    model: str
    is_kept: bool
    ingress: str
    final: "asyncio.Future[ResponseRecord]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class StoreDeployment:
    """`deployments.service.responses.ResponseStoreClient` over a store in this process."""

    def __init__(self, store: ResponseStore) -> None:
        self._store = store
        self._running: dict[str, _Running] = {}
        self._watched: TTLCache[str, _Running] = TTLCache(MAX_WATCHED, WATCHED_S)

    async def attend(self, ingress: str) -> AsyncGenerator[None, None]:
        """Held open by an ingress for as long as it lives; its end means that the ingress is dead.

        The responses that it was generating can never be finished then: they have failed.
        """
        try:
            yield
            await asyncio.get_running_loop().create_future()
        finally:
            for running in list(self._running.values()):
                if running.ingress == ingress:
                    await self.finish(to_lost(running.record), running.is_kept)

    async def begin(
        self, record: ResponseRecord, model: str, is_stored: bool, ingress: str = ""
    ) -> bool:
        """`ingress` is the one that attends and will call `finish`."""
        is_kept = is_stored and self._store.bounds.max_entries > 0
        if is_kept:
            self._store.put(record)
        self._running[record.response_id] = _Running(record, model, is_kept, ingress)
        return is_kept

    async def finish(self, record: ResponseRecord, is_stored: bool) -> None:
        """`is_stored` counts only where this process does not know the response: it restarted."""
        running = self._running.pop(record.response_id, None)
        try:
            if is_stored if running is None else running.is_kept:
                self._store.put(record)
        finally:
            if running is not None:
                running.final.set_result(record)

    async def get(self, response_id: str, owner: str) -> ResponseRecord | None:
        return self._store.get(response_id, owner)

    async def delete(self, response_id: str, owner: str) -> bool:
        is_deleted = self._store.delete(response_id, owner)
        if is_deleted and response_id in self._running:
            self._running[response_id].is_kept = False
        return is_deleted

    async def watch(self, response_id: str, owner: str) -> str | None:
        running = self._running.get(response_id)
        if running is None or running.record.owner != owner:
            return None
        self._watched[response_id] = running
        return running.model

    async def wait_finished(
        self, response_id: str, owner: str, timeout_s: float
    ) -> ResponseRecord | None:
        running = self._watched.get(response_id)
        if running is None or running.record.owner != owner:
            return None
        done, _ = await asyncio.wait([running.final], timeout=timeout_s)
        return running.final.result() if done else None


def to_lost(record: ResponseRecord) -> ResponseRecord:
    """The final record of a response whose ingress has died."""
    stored = decode_stored(record.body)
    failure = ResponseFailure("server_error", "The server lost this response.", is_temporary=True)
    response = replace(stored.response, status="failed", failure=failure)
    return replace(record, status="failed", body=encode_stored(replace(stored, response=response)))
