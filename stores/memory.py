"""The store that lives in the memory of its process and ends with it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stores.bounded import BoundedStore, Index
from stores.shelf import MemoryShelf
from stores.types import StoreBounds


class MemoryStore(BoundedStore):
    """A `Store` for one thread: it takes no lock, and no call waits for anything.

    `clock` gives seconds that never run backwards. A number of a store that was restarted is no
    number of the one before it, as long as the clock goes on and counts in microseconds faster
    than the store does: they begin with the time.
    """

    def __init__(self, bounds: StoreBounds, clock: Callable[[], float]) -> None:
        super().__init__(bounds, clock)
        self._index = Index(bounds, MemoryShelf(int(self._now_s * 1_000_000)))

    @contextmanager
    def _call(self) -> Iterator[None]:
        self._tick()
        yield

    _peek = _call

    def close(self) -> None:
        """Nothing is left open."""
