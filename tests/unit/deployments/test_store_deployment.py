"""The process that holds the responses knows which run, and hands their ends to who waits."""

import asyncio
from dataclasses import replace

import pytest

from deployments.resource.codec import encode_stored
from deployments.resource.response import RequestEcho, Response, ResponseFailure, StoredResponse
from deployments.service.records import RunningCall, to_stored
from deployments.store_deployment import CALLS, CLAIM_S, StoreDeployment, tell_refusals
from stores.errors import ParentGoneError, StoreDisabledError, StoreError, StoreFaultError
from stores.memory import MemoryStore
from stores.types import Bounds, ResponseRecord, StoreBounds
from tests.support.serving import ROOMY, make_store

RUNNING = ResponseRecord("resp_1", "alice", "in_progress", 1_700_000_000, "{}")
ENDED = replace(RUNNING, status="completed", body='{"text": "Hello"}')
DISABLED = Bounds(max_entries=0, max_bytes=1_000_000, ttl_s=60)


class FullStore(MemoryStore):
    """Takes what runs and nothing that has ended."""

    def finish(self, record: ResponseRecord) -> None:
        raise StoreError("the disk is full")


async def test_a_running_response_is_kept_and_replaced_by_its_end() -> None:
    store = make_store()
    assert await store.begin(RUNNING, "model", is_stored=True) is True
    assert await store.get("resp_1", "alice") == RUNNING
    await store.finish(ENDED, is_stored=True)
    assert await store.get("resp_1", "alice") == ENDED


async def test_a_response_that_is_not_to_be_stored_never_is() -> None:
    store = make_store()
    assert await store.begin(RUNNING, "model", is_stored=False) is False
    assert await store.get("resp_1", "alice") is None
    await store.finish(ENDED, is_stored=False)
    assert await store.get("resp_1", "alice") is None


@pytest.mark.parametrize("is_stored", [True, False])
async def test_what_was_begun_decides_what_is_kept(is_stored: bool) -> None:
    store = make_store()
    await store.begin(RUNNING, "model", is_stored=is_stored)
    await store.finish(ENDED, is_stored=not is_stored)
    assert await store.get("resp_1", "alice") == (ENDED if is_stored else None)


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_response_that_outlived_a_restart_is_kept_as_its_ingress_says(
    is_stored: bool,
) -> None:
    store = make_store()
    await store.finish(ENDED, is_stored=is_stored)
    assert await store.get("resp_1", "alice") == (ENDED if is_stored else None)


async def test_a_disabled_store_keeps_nothing_and_still_knows_what_runs() -> None:
    store = make_store(DISABLED)
    assert await store.begin(RUNNING, "model", is_stored=True) is False
    assert await store.watch("resp_1", "alice") == "model"
    await store.finish(ENDED, is_stored=False)
    assert await store.wait_finished("resp_1", "alice", 0) == ENDED
    with pytest.raises(StoreDisabledError):
        await store.get("resp_1", "alice")
    with pytest.raises(StoreDisabledError):
        await store.delete("resp_1", "alice")


async def test_a_deleted_response_is_not_kept_at_its_end() -> None:
    store = make_store()
    await store.begin(RUNNING, "model", is_stored=True)
    assert await store.delete("resp_1", "alice") is True
    assert await store.watch("resp_1", "alice") == "model"
    await store.finish(ENDED, is_stored=True)
    assert await store.get("resp_1", "alice") is None
    assert await store.wait_finished("resp_1", "alice", 0) == ENDED


async def test_an_ended_response_can_be_deleted_once() -> None:
    store = make_store()
    await store.begin(RUNNING, "model", is_stored=True)
    await store.finish(ENDED, is_stored=True)
    assert await store.delete("resp_1", "alice") is True
    assert await store.delete("resp_1", "alice") is False


async def test_a_response_runs_from_its_beginning_to_its_end() -> None:
    store = make_store()
    assert await store.watch("resp_1", "alice") is None
    await store.begin(RUNNING, "model", is_stored=True)
    assert await store.watch("resp_1", "alice") == "model"
    await store.finish(ENDED, is_stored=True)
    assert await store.watch("resp_1", "alice") is None


async def test_who_watches_gets_the_end_whenever_it_comes() -> None:
    store = make_store()
    await store.begin(RUNNING, "model", is_stored=True)
    await store.watch("resp_1", "alice")
    early = asyncio.create_task(store.wait_finished("resp_1", "alice", 10))
    await asyncio.sleep(0)
    assert not early.done()
    await store.finish(ENDED, is_stored=True)
    assert await early == ENDED
    assert await store.wait_finished("resp_1", "alice", 0) == ENDED


async def test_a_response_that_goes_on_is_waited_for_in_vain() -> None:
    store = make_store()
    await store.begin(RUNNING, "model", is_stored=True)
    await store.watch("resp_1", "alice")
    assert await store.wait_finished("resp_1", "alice", 0) is None
    await store.finish(ENDED, is_stored=True)
    assert await store.wait_finished("resp_1", "alice", 0) == ENDED


async def test_nobody_waits_for_what_nobody_watched() -> None:
    store = make_store()
    await store.begin(RUNNING, "model", is_stored=True)
    assert await store.wait_finished("resp_1", "alice", 10) is None
    assert await store.wait_finished("resp_9", "alice", 10) is None


async def test_another_owners_response_is_exactly_like_none() -> None:
    store = make_store()
    await store.begin(RUNNING, "model", is_stored=True)
    await store.watch("resp_1", "alice")
    assert await store.watch("resp_1", "bob") is None
    assert await store.get("resp_1", "bob") is None
    assert await store.delete("resp_1", "bob") is False
    assert await store.wait_finished("resp_1", "bob", 10) is None
    await store.finish(ENDED, is_stored=True)
    assert await store.get("resp_1", "alice") == ENDED


async def test_who_waits_gets_the_end_of_a_response_that_cannot_be_kept() -> None:
    store = StoreDeployment(FullStore(StoreBounds(ROOMY, ROOMY), lambda: 0.0), lambda: 0.0)
    await store.begin(RUNNING, "model", is_stored=True)
    await store.watch("resp_1", "alice")
    with pytest.raises(StoreError, match="the disk is full"):
        await store.finish(ENDED, is_stored=True)
    assert await store.wait_finished("resp_1", "alice", 0) == ENDED


async def test_what_a_dead_ingress_was_generating_has_failed_and_nothing_else() -> None:
    store = make_store()
    response = Response("resp_1", 1_700_000_000, "in_progress", "scripted")
    body = encode_stored(StoredResponse(response, RequestEcho(1.0, 1.0, is_stored=True)))
    lost = replace(RUNNING, body=body)
    attendance = store.attend("dead")
    await anext(attendance)
    await store.begin(lost, "model", True, "dead")
    await store.begin(replace(lost, response_id="resp_2"), "model", True, "alive")
    await store.begin(replace(lost, response_id="resp_3"), "model", False, "dead")
    await store.watch("resp_3", "alice")
    await attendance.aclose()
    record = await store.get("resp_1", "alice")
    assert record is not None
    failed = to_stored(record).response
    assert (record.status, failed.status, failed.response_id) == ("failed", "failed", "resp_1")
    assert failed.failure == ResponseFailure("server_error", "The server lost this response.", True)
    assert await store.get("resp_2", "alice") == replace(lost, response_id="resp_2")
    assert await store.get("resp_3", "alice") is None
    unstored = await store.wait_finished("resp_3", "alice", 1.0)
    assert unstored is not None
    assert unstored.status == "failed"


class Restarted:
    """A store whose deployment ends and begins again over the same records, as a file's does."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.records = MemoryStore(StoreBounds(ROOMY, ROOMY), lambda: self.now_s)

    def start(self) -> StoreDeployment:
        return StoreDeployment(self.records, lambda: self.now_s)


def make_lost(response_id: str) -> ResponseRecord:
    response = Response(response_id, 1_700_000_000, "in_progress", "scripted")
    body = encode_stored(StoredResponse(response, RequestEcho(1.0, 1.0, is_stored=True)))
    return replace(RUNNING, response_id=response_id, body=body)


async def test_what_nobody_claims_after_a_restart_has_failed_when_the_time_is_over() -> None:
    restarted = Restarted()
    await restarted.start().begin(make_lost("resp_1"), "model", True, "dead")
    store = restarted.start()
    restarted.now_s = CLAIM_S - 0.1
    assert await store.get("resp_1", "alice") == make_lost("resp_1")
    restarted.now_s = CLAIM_S
    record = await store.get("resp_1", "alice")
    assert record is not None
    assert (record.status, to_stored(record).response.status) == ("failed", "failed")


async def test_what_its_ingress_claims_runs_on_and_can_be_watched() -> None:
    restarted = Restarted()
    await restarted.start().begin(make_lost("resp_1"), "model", True, "alive")
    store = restarted.start()
    call = RunningCall(make_lost("resp_1"), "model", is_stored=True)
    unkept = RunningCall(make_lost("resp_2"), "model", is_stored=False)
    await store.claim((call, unkept), "alive")
    restarted.now_s = 10 * CLAIM_S
    assert await store.get("resp_1", "alice") == make_lost("resp_1")
    assert await store.get("resp_2", "alice") is None
    assert [await store.watch(i, "alice") for i in ("resp_1", "resp_2")] == ["model", "model"]


async def test_what_was_deleted_before_a_restart_stays_deleted_when_it_is_claimed() -> None:
    restarted = Restarted()
    before = restarted.start()
    await before.begin(make_lost("resp_1"), "model", True, "alive")
    await before.delete("resp_1", "alice")
    store = restarted.start()
    await store.claim((RunningCall(make_lost("resp_1"), "model", is_stored=True),), "alive")
    assert await store.get("resp_1", "alice") is None
    await store.finish(replace(make_lost("resp_1"), status="completed"), is_stored=True)
    assert await store.get("resp_1", "alice") is None


async def test_an_end_that_comes_in_time_is_no_loss() -> None:
    restarted = Restarted()
    await restarted.start().begin(make_lost("resp_1"), "model", True, "alive")
    store = restarted.start()
    ended = replace(make_lost("resp_1"), status="completed", body="{}")
    await store.finish(ended, is_stored=True)
    restarted.now_s = 10 * CLAIM_S
    assert await store.get("resp_1", "alice") == ended


async def test_an_end_that_comes_after_all_takes_the_place_of_the_loss() -> None:
    store = make_store()
    attendance = store.attend("slow")
    await anext(attendance)
    await store.begin(make_lost("resp_1"), "model", True, "slow")
    await attendance.aclose()
    ended = replace(make_lost("resp_1"), status="completed", body="{}")
    await store.finish(ended, is_stored=True)
    assert await store.get("resp_1", "alice") == ended


async def test_an_ingress_that_has_come_back_is_not_given_up() -> None:
    store = make_store()
    first, second = store.attend("alive"), store.attend("alive")
    await anext(first)
    await store.begin(make_lost("resp_1"), "model", True, "alive")
    await anext(second)
    await first.aclose()
    assert await store.get("resp_1", "alice") == make_lost("resp_1")
    await second.aclose()
    record = await store.get("resp_1", "alice")
    assert record is not None
    assert record.status == "failed"


async def test_a_claim_of_what_a_store_in_memory_has_lost_can_be_watched_and_not_kept() -> None:
    store = make_store()
    orphan = replace(make_lost("resp_2"), parent_id="resp_1")
    await store.claim((RunningCall(orphan, "model", is_stored=True),), "alive")
    assert await store.watch("resp_2", "alice") == "model"
    with pytest.raises(ParentGoneError):
        await store.finish(replace(orphan, status="completed"), is_stored=True)


async def test_over_a_handle_a_refusal_is_a_value_and_a_fault_is_raised() -> None:
    @tell_refusals
    class Told(StoreDeployment):
        pass

    store = Told(FullStore(StoreBounds(DISABLED, ROOMY), lambda: 0.0), lambda: 0.0)
    refusal: object = await store.get("resp_1", "alice")
    assert isinstance(refusal, StoreDisabledError)
    with pytest.raises(StoreError, match="the disk is full"):
        await store.finish(ENDED, True)


def test_every_call_of_the_store_tells_its_refusals() -> None:
    calls = {name for name, value in vars(StoreDeployment).items() if name[0] != "_"}
    assert calls == {*CALLS, "attend"}


class MovableDisk(MemoryStore):
    """Keeps no end while it `is_full`."""

    is_full = True

    def finish(self, record: ResponseRecord) -> None:
        if self.is_full:
            raise StoreFaultError("the disk is full")
        super().finish(record)


async def test_an_end_that_no_disk_took_is_kept_as_failed_when_there_is_room() -> None:
    disk = MovableDisk(StoreBounds(ROOMY, ROOMY), lambda: 0.0)
    store = StoreDeployment(disk, lambda: 0.0)
    await store.begin(make_lost("resp_1"), "model", True)
    with pytest.raises(StoreFaultError):
        await store.finish(replace(make_lost("resp_1"), status="completed"), is_stored=True)
    assert await store.get("resp_1", "alice") == make_lost("resp_1")
    disk.is_full = False
    record = await store.get("resp_1", "alice")
    assert record is not None
    failure = to_stored(record).response.failure
    assert failure is not None
    assert (record.status, failure.message) == ("failed", "The response could not be stored.")


async def test_a_full_disk_does_not_keep_what_is_there_from_being_read() -> None:
    now_s = [0.0]
    disk = MovableDisk(StoreBounds(ROOMY, ROOMY), lambda: now_s[0])
    disk.begin(make_lost("resp_1"))
    store = StoreDeployment(disk, lambda: now_s[0])
    now_s[0] = CLAIM_S
    assert await store.get("resp_1", "alice") == make_lost("resp_1")
    disk.is_full = False
    record = await store.get("resp_1", "alice")
    assert record is not None
    assert record.status == "failed"
