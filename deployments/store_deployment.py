"""The one process that holds what is kept: the store itself, and which responses run now."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, TypeVar

from cachetools import TTLCache

from deployments.service.records import RunningCall, to_lost, to_unstored_record
from stores.errors import StoreError, StoreFaultError, StoreRefusal
from stores.types import (
    ConversationRecord,
    History,
    HistoryQuery,
    ItemPage,
    ItemRecord,
    PageQuery,
    ResponseRecord,
    Store,
)

Replica = TypeVar("Replica", bound=type)

logger = logging.getLogger(__name__)

# How many final records, and for how many seconds, wait for a caller who watches them.
MAX_WATCHED, WATCHED_S = 1024, 30.0
# Seconds after a start in which the ingresses say which of the records in progress are theirs.
CLAIM_S = 10.0


@dataclass(slots=True)
class _Running:
    call: RunningCall
    ingress: str
    final: "asyncio.Future[ResponseRecord]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class StoreDeployment:
    """The clients of `deployments.service` over a store in this process.

    `clock` gives seconds that never run backwards.
    """

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._running: dict[tuple[str, str], _Running] = {}
        self._attending: dict[str, object] = {}
        self._watched: TTLCache[tuple[str, str], _Running] = TTLCache(MAX_WATCHED, WATCHED_S)
        # Records in progress of an earlier process: whoever generates them comes back, or nobody.
        self._orphans = {(each.owner, each.response_id): each for each in store.list_running()}
        self._orphaned_since_s = clock()
        # Ends that are still to be kept: of what nobody claimed, and of what no disk took when it
        # came, whose callers were told that it has failed.
        self._unkept: dict[tuple[str, str], ResponseRecord] = {}

    # ── which responses run ──────────────────────────────────────────────────────────────────────

    async def attend(self, ingress: str) -> AsyncGenerator[None, None]:
        """Held open by an ingress for as long as it lives; its end means that the ingress is dead.

        The responses that it was generating can never be finished then: they have failed.
        """
        call = self._attending[ingress] = object()
        try:
            yield
            await asyncio.get_running_loop().create_future()
        finally:
            if self._attending.get(ingress) is call:  # or it has come back before this was noticed
                del self._attending[ingress]
                await self._give_up(ingress)

    async def _give_up(self, ingress: str) -> None:
        for running in list(self._running.values()):
            if running.ingress == ingress:
                try:
                    await self.finish(to_lost(running.call.record), running.call.is_stored)
                except StoreError:
                    logger.exception("a lost response is not stored as failed")

    async def claim(self, calls: tuple[RunningCall, ...], ingress: str) -> None:
        """The responses that run in an ingress, told to a process that was not there before."""
        for call in calls:
            with suppress(StoreRefusal):  # a store in memory has lost its parent; its end fails
                if call.is_stored:
                    self._store.begin(call.record)
            self._note(call, ingress)

    async def begin(
        self, record: ResponseRecord, model: str, is_stored: bool, ingress: str = ""
    ) -> bool:
        """`ingress` is the one that attends and will call `finish`."""
        if is_stored:
            self._store.begin(record)
        self._note(RunningCall(record, model, is_stored), ingress)
        return is_stored and self._store.bounds.responses.max_entries > 0

    def _note(self, call: RunningCall, ingress: str) -> None:
        key = (call.record.owner, call.record.response_id)
        self._orphans.pop(key, None)
        if key not in self._running:
            self._running[key] = _Running(call, ingress)

    async def finish(self, record: ResponseRecord, is_stored: bool) -> None:
        """`is_stored` counts only where this process does not know the response: it restarted."""
        key = (record.owner, record.response_id)
        running = self._running.pop(key, None)
        self._orphans.pop(key, None)
        try:
            if is_stored if running is None else running.call.is_stored:
                self._store.finish(record)
        except StoreFaultError:
            self._unkept[key] = replace(to_unstored_record(record), input=())
            raise
        finally:
            if running is not None:
                running.final.set_result(replace(record, input=()))

    async def watch(self, response_id: str, owner: str) -> str | None:
        running = self._running.get((owner, response_id))
        if running is None:
            return None
        self._watched[(owner, response_id)] = running
        return running.call.model

    async def wait_finished(
        self, response_id: str, owner: str, timeout_s: float
    ) -> ResponseRecord | None:
        running = self._watched.get((owner, response_id))
        if running is None:
            return None
        done, _ = await asyncio.wait([running.final], timeout=timeout_s)
        return running.final.result() if done else None

    def _open(self) -> Store:
        """The store, without records in progress that nobody generates any more."""
        if self._orphans and self._clock() - self._orphaned_since_s >= CLAIM_S:
            self._unkept.update({key: to_lost(record) for key, record in self._orphans.items()})
            self._orphans.clear()
        self._keep_unkept()
        return self._store

    def _keep_unkept(self) -> None:
        """Keep what could not be kept, if the disk is well again."""
        for key, record in list(self._unkept.items()):
            try:
                self._store.finish(record)
            except StoreFaultError:
                return  # the next call tries again
            except StoreRefusal:
                logger.warning("a response that could not be stored is not there any more")
            del self._unkept[key]

    # ── responses ────────────────────────────────────────────────────────────────────────────────

    async def read_history(self, query: HistoryQuery) -> History:
        return self._open().read_history(query)

    async def get(self, response_id: str, owner: str) -> ResponseRecord | None:
        return self._open().get(response_id, owner)

    async def delete(self, response_id: str, owner: str) -> bool:
        return self._open().delete(response_id, owner)

    async def list_input_items(
        self, response_id: str, owner: str, query: PageQuery
    ) -> ItemPage | None:
        return self._open().list_input_items(response_id, owner, query)

    # ── conversations ────────────────────────────────────────────────────────────────────────────

    async def create_conversation(
        self, record: ConversationRecord, items: tuple[ItemRecord, ...]
    ) -> None:
        self._store.create_conversation(record, items)

    async def get_conversation(self, conversation_id: str, owner: str) -> ConversationRecord | None:
        return self._store.get_conversation(conversation_id, owner)

    async def update_conversation(
        self, conversation_id: str, owner: str, metadata: str
    ) -> ConversationRecord | None:
        return self._store.update_conversation(conversation_id, owner, metadata)

    async def delete_conversation(self, conversation_id: str, owner: str) -> bool:
        return self._store.delete_conversation(conversation_id, owner)

    async def append_items(
        self, conversation_id: str, owner: str, items: tuple[ItemRecord, ...]
    ) -> bool:
        return self._store.append_items(conversation_id, owner, items)

    async def list_conversation_items(
        self, conversation_id: str, owner: str, query: PageQuery
    ) -> ItemPage | None:
        return self._store.list_conversation_items(conversation_id, owner, query)

    async def get_conversation_item(
        self, conversation_id: str, owner: str, item_id: str
    ) -> ItemRecord | None:
        return self._store.get_conversation_item(conversation_id, owner, item_id)

    async def delete_conversation_item(
        self, conversation_id: str, owner: str, item_id: str
    ) -> ConversationRecord | None:
        return self._store.delete_conversation_item(conversation_id, owner, item_id)


CALLS = (
    "claim",
    "begin",
    "finish",
    "watch",
    "wait_finished",
    "read_history",
    "get",
    "delete",
    "list_input_items",
    "create_conversation",
    "get_conversation",
    "update_conversation",
    "delete_conversation",
    "append_items",
    "list_conversation_items",
    "get_conversation_item",
    "delete_conversation_item",
)


def tell_refusals(replica: Replica) -> Replica:
    """A class decorator: its calls return the store's refusals in place of raising them.

    What is raised over a handle is logged as an error with its traceback, and a caller's mistake is
    none of ours.
    """
    for name in CALLS:
        setattr(replica, name, as_value(getattr(replica, name)))
    return replica


def as_value(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @wraps(call)
    async def told(*args: Any) -> Any:
        try:
            return await call(*args)
        except StoreRefusal as refusal:
            return refusal

    return told
