"""Reads one generation's batches with a limit on each wait, and frees its engine in any case."""

import asyncio
import logging
from collections.abc import AsyncGenerator

from engine.types import EngineEvent

logger = logging.getLogger(__name__)

Batch = tuple[EngineEvent, ...]


class BatchReader:
    """The batches of an engine's generator, for one reader at a time.

    A generator whose `anext` is cancelled has ended, and one that is being read cannot be closed.
    So each batch is read in a task of its own, which goes on where a wait was in vain, and closing
    is a task too: whoever asks for it may be cancelled again and again, as Starlette does it to
    the task of a client that has gone.
    """

    def __init__(self, batches: AsyncGenerator[Batch, None]) -> None:
        self._batches = batches
        self._reading: asyncio.Task[Batch | None] | None = None
        self._closing: asyncio.Task[None] | None = None

    async def next(self, timeout_s: float) -> Batch | None:
        """The next batch, or None where none came in time: the next call waits on for it.

        Raises:
            RuntimeError: where the batches have ended.
            Exception: what the generator raises.
        """
        if self._reading is None:
            self._reading = asyncio.create_task(read_next(self._batches))
        done, _ = await asyncio.wait([self._reading], timeout=timeout_s)
        if not done:
            return None
        reading, self._reading = self._reading, None
        batch = reading.result()
        if batch is None:
            raise RuntimeError("the engine's events stopped before the last one")
        return batch

    async def close(self) -> None:
        """Close the generator, also in the middle of a wait; again, it does nothing."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            if self._reading is not None:
                self._reading.cancel()
                (outcome,) = await asyncio.gather(self._reading, return_exceptions=True)
                if isinstance(outcome, Exception):
                    raise outcome
            await self._batches.aclose()
        except Exception:
            logger.exception("a generation did not close as it should")


async def read_next(batches: AsyncGenerator[Batch, None]) -> Batch | None:
    return await anext(batches, None)
