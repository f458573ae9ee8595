"""The store that lives in the memory of its process and ends with it. It must never read a body."""

from collections.abc import Callable
from math import inf

from cachetools import TTLCache

from stores.errors import StoreDisabledError
from stores.types import ResponseRecord, StoreBounds

_Key = tuple[str, str]


class MemoryResponseStore:
    """A `ResponseStore` for one event loop: it takes no lock, and no call waits for anything.

    Records are kept under owner and id together, so that no call can reach, replace or even touch
    another owner's. Every call first drops what has expired since the last one, which makes a
    background task needless. All steps take constant time, amortised.

    `clock` gives seconds that never run backwards, such as `time.monotonic`. It is read once a
    call, so that nothing expires between two steps of one.
    """

    def __init__(self, bounds: StoreBounds, clock: Callable[[], float]) -> None:
        self._bounds = bounds
        self._clock = clock
        self._now_s = clock()
        self._running: dict[_Key, ResponseRecord] = {}
        self._ended: TTLCache[_Key, ResponseRecord, float] = TTLCache(
            maxsize=bounds.max_bytes,
            ttl=bounds.ttl_s or inf,
            timer=lambda: self._now_s,
            getsizeof=lambda record: record.size_bytes,
        )

    @property
    def bounds(self) -> StoreBounds:
        return self._bounds

    def put(self, record: ResponseRecord) -> None:
        self._open()
        key = (record.owner, record.response_id)
        self._forget(key)
        if record.status == "in_progress":
            self._running[key] = record
        elif record.size_bytes <= self._bounds.max_bytes:
            self._keep_ended(key, record)

    def get(self, response_id: str, owner: str) -> ResponseRecord | None:
        self._open()
        key = (owner, response_id)
        return self._running.get(key) or self._ended.get(key)

    def delete(self, response_id: str, owner: str) -> bool:
        self._open()
        return self._forget((owner, response_id))

    def _open(self) -> None:
        """What every call begins with."""
        if self._bounds.max_entries == 0:
            raise StoreDisabledError("responses_store_max_entries")
        self._now_s = self._clock()
        self._ended.expire()

    def _keep_ended(self, key: _Key, record: ResponseRecord) -> None:
        """Insert a record that fits; the cache itself evicts for bytes, by last use as here."""
        while len(self._ended) >= self._bounds.max_entries:
            self._ended.popitem()
        self._ended[key] = record

    def _forget(self, key: _Key) -> bool:
        found = self._running.pop(key, None) or self._ended.pop(key, None)
        return found is not None
