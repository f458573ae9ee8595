"""Records of stored responses and the protocol that every store of them follows."""

from dataclasses import dataclass
from typing import Literal, Protocol

RecordStatus = Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class ResponseRecord:
    """One response as it is kept: `body` is JSON that the store never reads.

    `created_at` is in whole seconds since the Unix epoch. `owner` names who may see the record.
    """

    response_id: str
    owner: str
    status: RecordStatus
    created_at: int
    body: str


@dataclass(frozen=True, slots=True)
class StoreBounds:
    """Limits of a store: 0 entries disables it, 0 bytes keeps nothing that has ended, 0 s never expires."""

    max_entries: int
    max_bytes: int
    ttl_s: int


class ResponseStore(Protocol):
    """Keeps records within its bounds: by last use beyond entries or bytes, by age beyond the TTL.

    A record in progress is never evicted or expired and counts in no bound until it ends.
    """

    @property
    def bounds(self) -> StoreBounds: ...

    def put(self, record: ResponseRecord) -> None:
        """Keep a record, in place of the one with its id if there is one (and then with a new age).

        A record that alone exceeds the bounds is not kept, and evicts nothing else.

        Raises:
            StoreDisabledError: where the bounds allow no entry.
        """
        ...

    def get(self, response_id: str, owner: str) -> ResponseRecord | None:
        """The record, which counts as a use and does not extend its life; None if unknown here.

        Raises:
            StoreDisabledError: where the bounds allow no entry.
        """
        ...

    def delete(self, response_id: str, owner: str) -> bool:
        """Forget a record, also one in progress. False where this owner has none with that id.

        Raises:
            StoreDisabledError: where the bounds allow no entry.
        """
        ...
