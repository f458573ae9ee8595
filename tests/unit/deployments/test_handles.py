"""What calls to replicas come to, when some of them die meanwhile or refuse."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, cast

import pytest
from ray.exceptions import ActorDiedError, RayTaskError

from deployments import handles
from deployments.errors import UnavailableError
from deployments.handles import ApplicationHandle, HandleEngineClient, HandleStoreClient
from deployments.service.records import RunningCall
from engine.errors import EngineError, QueueFullError, UnknownTokenError
from engine.types import ChatMessage, GenerateRequest, SamplingParams
from stores.errors import ParentGoneError
from stores.types import ResponseRecord


class Broadcasting:
    """A Serve handle whose replicas answer, or fail, like this."""

    def __init__(self, *results: object) -> None:
        self._results = results

    def broadcast(self, *_: object) -> "Broadcasting":
        return self

    async def results_async(self, return_exceptions: bool) -> list[object]:
        assert return_exceptions
        return list(self._results)


def make_handle(*results: object) -> ApplicationHandle:
    handle: Any = ApplicationHandle("app", "model")
    handle._handle = Broadcasting(*results)
    made: ApplicationHandle = handle
    return made


@pytest.mark.parametrize(
    ("results", "answers"),
    [((), []), ((True, False), [True, False]), ((ActorDiedError(), True), [True])],
)
async def test_a_replica_that_dies_does_not_speak_for_the_others(
    results: tuple[object, ...], answers: list[object]
) -> None:
    assert await make_handle(*results).call_all("abort", "resp_1") == answers


async def test_where_all_have_died_the_model_is_away() -> None:
    with pytest.raises(UnavailableError, match="The model is away"):
        await make_handle(ActorDiedError(), ActorDiedError()).call_all("stats")


class Counting:
    """A Serve handle whose replica counts the tokens of a request as `count` says."""

    def __init__(self, count: Callable[[GenerateRequest], int]) -> None:
        self._count = count

    @property
    def count_tokens(self) -> "Counting":
        return self

    async def remote(self, request: GenerateRequest) -> int:
        return self._count(request)


def make_client(count: Callable[[GenerateRequest], int]) -> HandleEngineClient:
    client: Any = HandleEngineClient("app")
    client._handle._handle = Counting(count)
    made: HandleEngineClient = client
    return made


def raising(error: Exception) -> Callable[[GenerateRequest], int]:
    def count(_: GenerateRequest) -> int:
        raise error

    return count


ASKED = GenerateRequest("count_1", (ChatMessage("user", "Hi"),), SamplingParams())


async def test_tokens_are_counted_by_a_replica_of_the_model() -> None:
    client = make_client(lambda request: len(request.messages) * 7)
    assert await client.count_tokens(ASKED) == 7


@pytest.mark.parametrize("error", [QueueFullError(64), UnknownTokenError(9, 5)])
async def test_what_a_replica_refuses_to_count_is_raised_as_it_was_there(
    error: EngineError,
) -> None:
    task_error: Any = RayTaskError
    told = task_error("count_tokens", "its trace", error).as_instanceof_cause()
    client = make_client(raising(told))
    with pytest.raises(type(error)) as caught:
        await client.count_tokens(ASKED)
    assert caught.value.args == error.args


async def test_where_no_replica_counts_the_model_is_away() -> None:
    with pytest.raises(UnavailableError, match="The model is away"):
        await make_client(raising(ActorDiedError())).count_tokens(ASKED)


async def test_a_count_that_is_refused_comes_as_a_value_and_is_raised_here() -> None:
    refusal: Any = QueueFullError(64)
    with pytest.raises(QueueFullError) as caught:
        await make_client(lambda _: refusal).count_tokens(ASKED)
    assert caught.value is refusal


class Streaming:
    """A Serve handle whose replica gives these batches; it knows whether they were cancelled."""

    def __init__(self, *batches: object) -> None:
        self._batches = batches
        self.is_cancelled = False

    def options(self, stream: bool) -> "Streaming":
        assert stream
        return self

    @property
    def generate(self) -> "Streaming":
        return self

    def remote(self, _: GenerateRequest) -> "Streaming":
        return self

    async def __aiter__(self) -> AsyncIterator[object]:
        for batch in self._batches:
            yield batch

    def cancel(self) -> None:
        self.is_cancelled = True


async def test_a_generation_that_is_refused_is_raised_here() -> None:
    streaming, client = Streaming(QueueFullError(64)), cast(Any, HandleEngineClient("app"))
    client._handle._handle = streaming
    with pytest.raises(QueueFullError):
        async for _ in client.generate(ASKED):
            raise AssertionError("nothing is generated")
    assert streaming.is_cancelled


class Restarting:
    """A Serve handle of the store: `num_deaths` calls meet a dead replica before one is answered.

    `told` are the calls that were answered, each with its arguments.
    """

    def __init__(self, num_deaths: int = 0) -> None:
        self.num_deaths = num_deaths
        self.told: list[tuple[Any, ...]] = []
        self.has_claimed = asyncio.Event()
        self.attends: list[asyncio.Event] = []

    def __getattr__(self, method: str) -> "Method":
        return Method(self, method)

    def options(self, stream: bool) -> "Restarting":
        assert stream
        return self

    async def call(self, method: str, *args: object) -> object:
        if self.num_deaths:
            self.num_deaths -= 1
            raise ActorDiedError()
        self.told.append((method, *args))
        if method == "claim":
            self.has_claimed.set()
        return True

    async def be_attended(self) -> AsyncIterator[None]:
        """Until the store dies: that is, its event is set."""
        death = asyncio.Event()
        self.attends.append(death)
        yield None
        await death.wait()
        raise ActorDiedError()


class Method:
    def __init__(self, handle: Restarting, name: str) -> None:
        self._handle, self._name = handle, name

    def remote(self, *args: object) -> Any:
        if self._name == "attend":
            return self._handle.be_attended()
        return self._handle.call(self._name, *args)


@pytest.fixture
async def store() -> AsyncIterator[tuple[HandleStoreClient, Restarting]]:
    client: Any = HandleStoreClient("store", "ingress_1")
    handle = client._handle._handle = Restarting()
    yield client, handle
    if client._attending is not None:
        client._attending.cancel()
        await asyncio.wait([client._attending])


RECORD = ResponseRecord("resp_1", "alice", "in_progress", 1_700_000_000, "{}")


@pytest.mark.parametrize("method", ["begin", "finish"])
async def test_what_must_be_kept_is_told_again_until_a_store_is_there(
    store: tuple[HandleStoreClient, Restarting], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, handle = store
    monkeypatch.setattr(handles, "RETRY_S", 0.001)
    handle.num_deaths = 3
    if method == "begin":
        assert await client.begin(RECORD, "model", True) is True
    else:
        await client.finish(RECORD, True)
    assert [call[:2] for call in handle.told if call[0] != "claim"] == [(method, RECORD)]


async def test_a_store_that_stays_away_is_not_waited_for_without_end(
    store: tuple[HandleStoreClient, Restarting], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, handle = store
    monkeypatch.setattr(handles, "CALL_S", 0.05)
    monkeypatch.setattr(handles, "RETRY_S", 0.01)
    handle.num_deaths = 1000
    with pytest.raises(UnavailableError, match="The store is away"):
        await client.finish(RECORD, True)


async def test_a_read_is_not_repeated(store: tuple[HandleStoreClient, Restarting]) -> None:
    client, handle = store
    handle.num_deaths = 1
    with pytest.raises(UnavailableError, match="The store is away"):
        await client.get("resp_1", "alice")


async def test_a_store_that_comes_back_is_told_what_runs_here(
    store: tuple[HandleStoreClient, Restarting], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, handle = store
    monkeypatch.setattr(handles, "RETRY_S", 0.001)
    await client.begin(RECORD, "model", True)
    ended = replace(RECORD, response_id="resp_2")
    await client.begin(ended, "model", False)
    await client.finish(ended, False)
    async with asyncio.timeout(10):
        await handle.has_claimed.wait()
        handle.has_claimed.clear()
        handle.attends[0].set()
        await handle.has_claimed.wait()
    call = RunningCall(RECORD, "model", is_stored=True)
    assert handle.told[-1] == ("claim", (call,), "ingress_1")
    assert len(handle.attends) == 2


async def test_what_the_store_refuses_is_raised_here(
    store: tuple[HandleStoreClient, Restarting], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, handle = store
    refusal = ParentGoneError("no such parent")

    async def refuse(*_: object) -> object:
        return refusal

    monkeypatch.setattr(handle, "call", refuse)
    with pytest.raises(ParentGoneError) as caught:
        await client.begin(RECORD, "model", True)
    assert caught.value is refusal


REQUEST: ContextVar[str] = ContextVar("REQUEST", default="none")


async def test_what_must_be_kept_is_told_in_no_requests_context(
    store: tuple[HandleStoreClient, Restarting], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, handle = store
    seen = []

    async def look(method: str, *_: object) -> object:
        seen.append((method, REQUEST.get()))
        return True

    monkeypatch.setattr(handle, "call", look)
    token = REQUEST.set("one whose client may leave")
    await client.begin(RECORD, "model", True)
    await client.finish(RECORD, True)
    REQUEST.reset(token)
    assert [it for it in seen if it[0] != "claim"] == [("begin", "none"), ("finish", "none")]
