"""Batches come in their order, waits have an end, and the generator is closed in any case."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from deployments.service.batch_reader import Batch, BatchReader
from engine.types import GenerationFinished, GenerationStarted
from tests.support.tasks import tasks_left

FIRST: Batch = (GenerationStarted(5),)
LAST: Batch = (GenerationFinished("stop", 1),)


class Source:
    """A generator of two batches: it waits for `go` between them and, to close, for `may_close`."""

    def __init__(self, fault: Exception | None = None, closing_fault: Exception | None = None):
        self.go, self.may_close = asyncio.Event(), asyncio.Event()
        self.may_close.set()
        self.num_closed = 0
        self._fault, self._closing_fault = fault, closing_fault

    async def generate(self) -> AsyncGenerator[Batch, None]:
        try:
            yield FIRST
            await self.go.wait()
            if self._fault is not None:
                raise self._fault
            yield LAST
        finally:
            await self.may_close.wait()
            self.num_closed += 1
            if self._closing_fault is not None:
                raise self._closing_fault


async def read_first(source: Source) -> BatchReader:
    reader = BatchReader(source.generate())
    assert await reader.next(60) == FIRST
    return reader


async def test_batches_come_in_their_order_and_after_the_last_there_is_none() -> None:
    source = Source()
    source.go.set()
    reader = await read_first(source)
    assert await reader.next(60) == LAST
    with pytest.raises(RuntimeError, match="events stopped before the last one"):
        await reader.next(60)
    await reader.close()
    assert (source.num_closed, tasks_left()) == (1, set())


async def test_a_wait_that_was_in_vain_loses_nothing() -> None:
    source = Source()
    reader = await read_first(source)
    assert [await reader.next(0) for _ in range(3)] == [None, None, None]
    source.go.set()
    assert await reader.next(60) == LAST
    await reader.close()


async def test_a_wait_that_is_cancelled_loses_nothing() -> None:
    source = Source()
    reader = await read_first(source)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await reader.next(60)
    source.go.set()
    assert await reader.next(60) == LAST
    await reader.close()


@pytest.mark.parametrize("fault", [ValueError("broken"), TimeoutError("mine")], ids=repr)
async def test_what_the_generator_raises_is_no_silence(fault: Exception) -> None:
    source = Source(fault)
    source.go.set()
    reader = await read_first(source)
    with pytest.raises(type(fault), match=str(fault)):
        await reader.next(60)
    await reader.close()
    assert (source.num_closed, tasks_left()) == (1, set())


async def test_a_reader_can_be_closed_before_it_has_read() -> None:
    source = Source()
    await BatchReader(source.generate()).close()
    assert (source.num_closed, tasks_left()) == (0, set())


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_a_reader_is_closed_once_between_batches_and_in_a_wait(is_waiting: bool) -> None:
    source = Source()
    reader = await read_first(source)
    if is_waiting:
        assert await reader.next(0) is None
    await asyncio.gather(reader.close(), reader.close())
    await reader.close()
    assert (source.num_closed, tasks_left()) == (1, set())


async def test_closing_goes_on_however_often_its_caller_is_cancelled() -> None:
    source = Source()
    source.may_close.clear()
    reader = await read_first(source)
    assert await reader.next(0) is None
    for _ in range(3):
        caller = asyncio.create_task(reader.close())
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
    assert source.num_closed == 0
    source.may_close.set()
    await reader.close()
    assert (source.num_closed, tasks_left()) == (1, set())


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_a_fault_of_the_closing_is_in_the_log_and_hurts_nobody(
    is_waiting: bool, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source(closing_fault=ValueError("broken"))
    reader = await read_first(source)
    if is_waiting:
        assert await reader.next(0) is None
    await reader.close()
    assert source.num_closed == 1
    assert caplog.messages == ["a generation did not close as it should"]
    assert "ValueError: broken" in caplog.text
