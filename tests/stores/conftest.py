"""Stores with a manual clock, each test once for each kind of store."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stores.types import Bounds, StoreBounds
from tests.stores.under_test import PLENTY, STORE_FACTORIES, Caller, ManualClock

MakeStore = Callable[..., Caller]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=list(STORE_FACTORIES))
def make_store(
    request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path
) -> Iterator[MakeStore]:
    """A function that makes a store of the bounds of its responses and its conversations."""
    made: list[Caller] = []

    def make(responses: Bounds = PLENTY, conversations: Bounds = PLENTY) -> Caller:
        bounds = StoreBounds(responses, conversations)
        made.append(Caller(STORE_FACTORIES[request.param](bounds, clock, tmp_path)))
        return made[-1]

    yield make
    for caller in made:
        caller.store.close()
