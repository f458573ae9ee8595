"""However a response ends, its engine is let go of and the store hears of it, once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing

import pytest

from deployments.errors import InternalError, NotFoundError, ServiceError, UnavailableError
from deployments.resource.events import ResponseEnded, StreamEvent
from deployments.resource.response import ResponseFailure, StoredResponse
from deployments.service import responses
from deployments.service.generation import Generations
from deployments.service.models import ModelDirectory
from deployments.service.records import to_stored
from deployments.service.responses import ResponsesService, RunningResponse
from deployments.store_deployment import StoreDeployment
from deployments.wire.parse import parse_model
from deployments.wire.responses_request import CreateResponse
from engine.errors import (
    EngineError,
    EngineStoppedError,
    GenerationFailedError,
    ModelLoadError,
    QueueFullError,
)
from engine.types import GenerateRequest, GenerationFinished, GenerationStarted, TextDelta
from stores.errors import StoreError
from stores.types import ResponseRecord
from tests.support.observed import ObservedStore
from tests.support.scripted import ScriptedEngine, Step, saying
from tests.support.serving import START_S, make_ids, playing

REQUEST = parse_model(CreateResponse, {"model": "scripted", "input": "Hi"})
STREAMED = REQUEST.model_copy(update={"stream": True})
UNSTORED = REQUEST.model_copy(update={"store": False})
BEGINNING: list[Step] = [GenerationStarted(5), TextDelta("Hel", 1)]


def make_service(
    engine: ScriptedEngine, store: StoreDeployment, replica_wait_s: float = 60.0
) -> ResponsesService:
    models = ModelDirectory({"app": engine})
    generations = Generations(models, lambda: START_S, make_ids(), replica_wait_s, 60.0)
    return ResponsesService(generations, store)


async def create(service: ResponsesService, request: CreateResponse) -> StoredResponse:
    """A response in one piece."""
    return await service.finish(await service.open(request, "me"))


async def read(service: ResponsesService) -> list[StreamEvent]:
    """All events of one response."""
    return await read_rest(service, await service.open(STREAMED, "me"))


async def read_rest(service: ResponsesService, running: RunningResponse) -> list[StreamEvent]:
    async with aclosing(service.stream(running)) as events:
        return [event async for event in events]


async def settle() -> None:
    """Let tasks go on that can: a few turns of the loop, without a wait."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_response_that_is_never_read_is_cancelled_when_it_is_closed() -> None:
    engine, store = playing(*BEGINNING, asyncio.Event()), ObservedStore()
    service = make_service(engine, store)
    running = await service.open(STREAMED, "me")
    await service.close(running)
    await store.wait_ended()
    assert (engine.closed, store.statuses) == (["resp_1"], ["cancelled"])


@pytest.mark.parametrize("num_read", range(1, 6))
async def test_a_response_that_is_closed_after_any_event_is_cancelled(num_read: int) -> None:
    engine, store = playing(*BEGINNING, asyncio.Event()), ObservedStore()
    service = make_service(engine, store)
    running = await service.open(STREAMED, "me")
    events = service.stream(running)
    for _ in range(num_read):
        await anext(events)
    await events.aclose()
    await store.wait_ended()
    assert (engine.closed, store.statuses) == (["resp_1"], ["cancelled"])


@pytest.mark.parametrize("is_one_batch", [False, True])
@pytest.mark.parametrize("num_read", range(10))
async def test_a_response_that_is_closed_after_any_event_is_kept_once(
    num_read: int, is_one_batch: bool
) -> None:
    said = (GenerationStarted(5), TextDelta("Hello", 1), GenerationFinished("stop", 2))
    engine, store = playing(*([said] if is_one_batch else said)), ObservedStore()
    service = make_service(engine, store)
    running = await service.open(STREAMED, "me")
    events = service.stream(running)
    for _ in range(num_read):
        await anext(events)
    await events.aclose()
    await service.close(running)  # as the reply does, also of a stream that was never read
    await store.wait_ended()
    await settle()
    # The response is whole when the sixth event is read, the first of four that its end makes.
    assert engine.closed == ["resp_1"]
    assert store.statuses == ["completed" if num_read >= 6 else "cancelled"]
    assert await store.watch("resp_1", "me") is None


async def test_closing_twice_or_after_the_end_changes_nothing() -> None:
    engine, store = playing(*saying("Hello")), ObservedStore()
    service = make_service(engine, store)
    running = await service.open(STREAMED, "me")
    async with aclosing(service.stream(running)) as events:
        assert [type(event) async for event in events][-1] is ResponseEnded
    await service.close(running)
    await service.close(running)
    await settle()
    assert (engine.closed, store.statuses) == (["resp_1"], ["completed"])


async def test_a_task_that_is_cancelled_cancels_its_response() -> None:
    engine, store = playing(*BEGINNING, asyncio.Event()), ObservedStore()
    task = asyncio.create_task(create(make_service(engine, store), REQUEST))
    await engine.held.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.wait_ended()
    assert (engine.closed, store.statuses) == (["resp_1"], ["cancelled"])
    stored = to_stored(store.ends[0]).response
    assert stored.output_text == "Hel"


async def test_a_caller_who_goes_while_its_response_is_being_stored_takes_nothing_with_it() -> None:
    engine, store = playing(*saying("Hello")), ObservedStore()
    store.hold = asyncio.Event()
    task = asyncio.create_task(create(make_service(engine, store), REQUEST))
    await store.wait_ending()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    store.hold.set()
    await store.wait_ended()
    assert store.statuses == ["completed"]


async def test_the_end_is_stored_before_it_is_told() -> None:
    engine, store = playing(*saying("Hello")), ObservedStore()
    service = make_service(engine, store)
    running = await service.open(STREAMED, "me")
    async with aclosing(service.stream(running)) as events:
        async for event in events:
            assert store.statuses == (["completed"] if isinstance(event, ResponseEnded) else [])


async def test_a_whole_answer_in_the_first_batch_is_an_answer() -> None:
    batch = (GenerationStarted(5), TextDelta("Hello", 1), GenerationFinished("stop", 2))
    stored = await create(make_service(playing(batch), ObservedStore()), REQUEST)
    assert stored.response.output_text == "Hello"


FAILURES: list[tuple[Exception, str]] = [
    (GenerationFailedError("The generation failed."), "The generation failed."),
    (EngineStoppedError("thread 7 has ended"), "The model is restarting; try again soon."),
    (EngineError("at 0x7f00"), "The server could not answer this request."),
    (ModelLoadError("/home/me/model"), "The server could not answer this request."),
    (UnavailableError("The model is away."), "The model is away."),
    (ValueError("/home/me/secret.py"), "The server had an internal error."),
]


@pytest.mark.parametrize(("error", "message"), FAILURES, ids=lambda e: type(e).__name__)
async def test_a_failure_is_the_last_event_and_tells_no_more_than_a_caller_may_know(
    error: Exception, message: str
) -> None:
    engine, store = playing(*BEGINNING, error), ObservedStore()
    *_, last = await read(make_service(engine, store))
    assert isinstance(last, ResponseEnded)
    assert last.response.status == "failed"
    is_temporary = isinstance(error, UnavailableError | EngineStoppedError)
    assert last.response.failure == ResponseFailure("server_error", message, is_temporary)
    assert (engine.closed, store.statuses) == (["resp_1"], ["failed"])


@pytest.mark.parametrize(("error", "message"), FAILURES, ids=lambda e: type(e).__name__)
async def test_a_failure_is_raised_to_a_caller_who_waits_for_the_whole(
    error: Exception, message: str
) -> None:
    store = ObservedStore()
    with pytest.raises(ServiceError) as caught:
        await create(make_service(playing(*BEGINNING, error), store), REQUEST)
    is_temporary = isinstance(error, UnavailableError | EngineStoppedError)
    told = (
        UnavailableError(message) if is_temporary else InternalError(message, None, "server_error")
    )
    assert (type(caught.value), caught.value.args) == (type(told), told.args)
    assert store.statuses == ["failed"]


async def test_an_engine_that_falls_silent_without_an_end_has_failed() -> None:
    store = ObservedStore()
    *_, last = await read(make_service(playing(*BEGINNING), store))
    assert isinstance(last, ResponseEnded)
    assert last.response.failure == ResponseFailure(
        "server_error", "The server had an internal error."
    )
    assert store.statuses == ["failed"]


@pytest.mark.parametrize("error", [StoreError("full"), UnavailableError("away")], ids=repr)
async def test_a_response_that_cannot_be_stored_has_failed(error: Exception) -> None:
    store = ObservedStore()
    service = make_service(playing(*saying("Hello")), store)
    running = await service.open(STREAMED, "me")
    store.records.broken = error
    async with aclosing(service.stream(running)) as events:
        *_, last = [event async for event in events]
    assert isinstance(last, ResponseEnded)
    assert (last.response.status, last.response.completed_at) == ("failed", None)
    assert last.response.failure == ResponseFailure(
        "server_error", "The response could not be stored."
    )


async def test_a_response_that_need_not_be_stored_does_not_need_the_store() -> None:
    store = ObservedStore()
    store.records.broken = StoreError("full")
    stored = await create(make_service(playing(*saying("Hello")), store), UNSTORED)
    assert stored.response.status == "completed"


async def test_a_cancelled_response_that_cannot_be_stored_is_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = ObservedStore()
    service = make_service(playing(*BEGINNING, asyncio.Event()), store)
    running = await service.open(STREAMED, "me")
    store.records.broken = StoreError("the disk is full")
    await service.close(running)
    await settle()
    assert caplog.messages == ["response resp_1 is not stored"]
    assert "the disk is full" in caplog.text


async def test_the_engine_is_free_while_the_end_is_being_stored() -> None:
    engine, store = playing(*saying("Hello")), ObservedStore()
    store.hold = asyncio.Event()
    task = asyncio.create_task(create(make_service(engine, store), REQUEST))
    await store.wait_ending()
    assert engine.closed == ["resp_1"]
    store.hold.set()
    assert (await task).response.status == "completed"


async def test_a_store_that_is_away_lets_nothing_begin() -> None:
    engine = playing(*BEGINNING, asyncio.Event())
    store = ObservedStore()
    store.begins_with = UnavailableError("The store is away.")
    with pytest.raises(UnavailableError, match="The store is away"):
        await make_service(engine, store).open(STREAMED, "me")
    assert engine.closed == ["resp_1"]


async def test_a_model_that_does_not_begin_in_time_is_not_ready() -> None:
    engine, store = playing(asyncio.Event()), ObservedStore()
    with pytest.raises(UnavailableError, match="The model is not ready; try again soon."):
        await make_service(engine, store, replica_wait_s=0).open(STREAMED, "me")
    assert (engine.closed, store.ends) == (["resp_1"], [])


async def test_a_request_that_the_engine_refuses_leaves_no_trace() -> None:
    engine, store = playing(QueueFullError(3)), ObservedStore()
    service = make_service(engine, store)
    with pytest.raises(Exception, match=r"places in its queue \(3\)"):
        await service.open(REQUEST, "me")
    with pytest.raises(NotFoundError):
        await service.retrieve("resp_1", "me")


UseCase = Callable[[ResponsesService, str, str], Awaitable[object]]


@pytest.mark.parametrize(
    "use_case",
    [ResponsesService.retrieve, ResponsesService.delete, ResponsesService.cancel],
    ids=["retrieve", "delete", "cancel"],
)
async def test_another_owners_response_is_exactly_like_none(use_case: UseCase) -> None:
    service = make_service(playing(*BEGINNING, asyncio.Event()), ObservedStore())
    running = await service.open(STREAMED, "me")
    for response_id, owner in (("resp_1", "you"), ("resp_9", "me")):
        with pytest.raises(NotFoundError) as caught:
            await use_case(service, response_id, owner)
        assert vars(caught.value) == {
            "message": f"Response with id '{response_id}' not found.",
            "param": "response_id",
            "code": "not_found",
        }
    await service.close(running)


@pytest.fixture
async def stuck() -> AsyncIterator[ResponsesService]:
    """A service whose only response, `resp_1`, does not heed an abort."""

    class Deaf(ScriptedEngine):
        async def abort(self, generation_id: str) -> bool:
            return True

    service = make_service(Deaf(lambda _: [*BEGINNING, asyncio.Event()]), ObservedStore())
    running = await service.open(STREAMED, "me")
    yield service
    await service.close(running)


async def test_a_response_that_does_not_stop_in_time_is_told(
    stuck: ResponsesService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "CANCEL_S", 0)
    with pytest.raises(UnavailableError) as caught:
        await stuck.cancel("resp_1", "me")
    assert caught.value.code == "cancel_timeout"


async def test_a_running_response_that_is_deleted_is_stopped_and_not_kept() -> None:
    engine, store = playing(*BEGINNING, asyncio.Event()), ObservedStore()
    service = make_service(engine, store)
    task = asyncio.create_task(create(service, REQUEST))
    await store.wait_begun()
    await service.delete("resp_1", "me")
    assert (await task).response.status == "cancelled"
    with pytest.raises(NotFoundError):
        await service.retrieve("resp_1", "me")


async def test_the_generation_is_called_as_the_response_is() -> None:
    engine = playing(*saying("Hello"))
    stored = await create(make_service(engine, ObservedStore()), REQUEST)
    asked: GenerateRequest = engine.requests[0]
    assert asked.generation_id == stored.response.response_id == "resp_1"


class Deafening(ObservedStore):
    """Hears of beginnings, and its answers do not come back."""

    async def begin(
        self, record: ResponseRecord, model: str, is_stored: bool, ingress: str = ""
    ) -> bool:
        await super().begin(record, model, is_stored, ingress)
        raise UnavailableError("The store is away; try again soon.")


@pytest.mark.parametrize("request_", [REQUEST, UNSTORED])
async def test_a_beginning_whose_answer_is_lost_is_taken_back(request_: CreateResponse) -> None:
    engine, store = playing(*BEGINNING, asyncio.Event()), Deafening()
    with pytest.raises(UnavailableError):
        await make_service(engine, store).open(request_, "me")
    await store.wait_ended()
    await settle()
    assert engine.closed == ["resp_1"]
    assert await store.watch("resp_1", "me") is None
    assert await store.get("resp_1", "me") is None


async def test_a_beginning_that_was_never_heard_leaves_nothing_behind() -> None:
    engine, store = playing(*BEGINNING, asyncio.Event()), ObservedStore()
    store.begins_with = UnavailableError("The store is away; try again soon.")
    with pytest.raises(UnavailableError):
        await make_service(engine, store).open(REQUEST, "me")
    await settle()
    assert store.statuses == []
    assert await store.get("resp_1", "me") is None
