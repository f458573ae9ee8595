"""Fixtures of every layer, and what must be set before any of them imports MLX."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import settings

# As the server sets it: threads that wait by spinning starve each other on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# How many examples a property is tried with; a test that needs more takes a multiple of it.
settings.register_profile("quick", max_examples=25)
settings.register_profile("ci", max_examples=100)
settings.load_profile(os.environ.get("ANTIPHON_TEST_PROFILE", "quick"))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", autouse=True)
async def event_loop(anyio_backend: str) -> AsyncIterator[asyncio.AbstractEventLoop]:
    """One loop for all tests of a file: to make one for each takes longer than most of them."""
    yield asyncio.get_running_loop()


@pytest.fixture(autouse=True)
def leave_nothing_running(event_loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """A test that leaves a task to the next one in its file has failed."""
    before = asyncio.all_tasks(event_loop)
    yield
    left = [task for task in asyncio.all_tasks(event_loop) - before if not _closes(task)]
    assert left == []


def _closes(task: "asyncio.Task[Any]") -> bool:
    """Whether a task closes a generator that nobody has, which Python begins whenever it likes."""
    return type(task.get_coro()).__name__ == "async_generator_athrow"
