"""Every implementation of `ResponseStore`, and what the tests that hold for all of them need."""

from collections.abc import Callable

from stores.memory import MemoryResponseStore
from stores.types import RecordStatus, ResponseRecord, ResponseStore, StoreBounds

StoreFactory = Callable[[StoreBounds, Callable[[], float]], ResponseStore]

STORE_FACTORIES: dict[str, StoreFactory] = {"memory": MemoryResponseStore}


class ManualClock:
    """A clock that moves only when a test moves it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def make_record(
    response_id: str,
    *,
    owner: str = "alice",
    status: RecordStatus = "completed",
    body: str = "{}",
) -> ResponseRecord:
    return ResponseRecord(response_id, owner, status, created_at=1_700_000_000, body=body)
