"""A store that tells what it was told, and can be made to wait or to break."""

import asyncio
import time

from deployments.store_deployment import StoreDeployment
from stores.memory import MemoryStore
from stores.types import Bounds, RecordStatus, ResponseRecord, StoreBounds
from tests.support.serving import ROOMY

PATIENCE_S = 10.0


class BreakableStore(MemoryStore):
    """Raises `broken`, where there is one, in place of taking a record that has ended."""

    broken: Exception | None = None

    def finish(self, record: ResponseRecord) -> None:
        if self.broken is not None:
            raise self.broken
        super().finish(record)


class ObservedStore(StoreDeployment):
    """A deployment whose `ends` are the final records that it was given, in their order.

    `begins_with` is raised in place of a beginning. While `hold` is not set no end is taken.
    """

    def __init__(self, bounds: Bounds = ROOMY) -> None:
        self.records = BreakableStore(StoreBounds(bounds, ROOMY), time.monotonic)
        super().__init__(self.records, time.monotonic)
        self.ends: list[ResponseRecord] = []
        self.begins_with: Exception | None = None
        self.hold: asyncio.Event | None = None
        self._has_begun = asyncio.Event()
        self._is_ending = asyncio.Event()
        self._has_ended = asyncio.Event()

    @property
    def statuses(self) -> list[RecordStatus]:
        return [record.status for record in self.ends]

    async def begin(
        self, record: ResponseRecord, model: str, is_stored: bool, ingress: str = ""
    ) -> bool:
        if self.begins_with is not None:
            raise self.begins_with
        self._has_begun.set()
        return await super().begin(record, model, is_stored, ingress)

    async def finish(self, record: ResponseRecord, is_stored: bool) -> None:
        self._is_ending.set()
        if self.hold is not None:
            await self.hold.wait()
        self.ends.append(record)
        self._has_ended.set()
        await super().finish(record, is_stored)

    async def wait_begun(self) -> None:
        """Until a first response has begun."""
        await asyncio.wait_for(self._has_begun.wait(), PATIENCE_S)

    async def wait_ending(self) -> None:
        """Until a first end has come, taken or not."""
        await asyncio.wait_for(self._is_ending.wait(), PATIENCE_S)

    async def wait_ended(self) -> None:
        """Until a first end is taken."""
        await asyncio.wait_for(self._has_ended.wait(), PATIENCE_S)
