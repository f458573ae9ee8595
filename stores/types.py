"""Records of stored responses and the protocol that every store of them follows."""

from dataclasses import dataclass
from typing import Final, Literal, Protocol

RecordStatus = Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]

# What a record costs beside its text: about what CPython takes for its objects and index entries.
RECORD_OVERHEAD_BYTES: Final = 512


@dataclass(frozen=True, slots=True)
class ResponseRecord:
    """One response as it is kept: `body` is JSON that the store never reads.

    `created_at` is in whole seconds since the Unix epoch. `owner` names who may see the record:
    owners share nothing, so that the same `response_id` under two owners is two records.
    """

    response_id: str
    owner: str
    status: RecordStatus
    created_at: int
    body: str

    @property
    def size_bytes(self) -> int:
        """What the record weighs against `StoreBounds.max_bytes`: its text as UTF-8 and a constant.

        A lone surrogate, which JSON can spell and UTF-8 cannot, counts three bytes.
        """
        texts = (self.response_id, self.owner, self.body)
        return RECORD_OVERHEAD_BYTES + sum(len(t.encode("utf-8", "surrogatepass")) for t in texts)


@dataclass(frozen=True, slots=True)
class StoreBounds:
    """Limits of a store, none of them negative.

    0 entries disables the store, 0 bytes keeps nothing that has ended, and with 0 s nothing
    expires.
    """

    max_entries: int
    max_bytes: int
    ttl_s: int


class ResponseStore(Protocol):
    """Keeps records within its bounds: by last use beyond entries or bytes, by age beyond the TTL.

    A record in progress is never evicted or expired and counts in no bound until it ends. A record
    of another owner is exactly like none, and asking for it is no use of it.
    """

    @property
    def bounds(self) -> StoreBounds: ...

    def put(self, record: ResponseRecord) -> None:
        """Keep a record, in place of its owner's one with its id if any (and then with a new age).

        A record that has ended and alone exceeds `max_bytes` is not kept: it evicts nothing else,
        but the one that it replaces is gone. A record deleted before is kept again: whoever deletes
        one in progress sees to it that its end is not put.

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
