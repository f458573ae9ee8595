"""What calls to replicas come to, when some of them die meanwhile or refuse."""

from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest
from ray.exceptions import ActorDiedError, RayTaskError

from deployments.errors import UnavailableError
from deployments.handles import ApplicationHandle, HandleEngineClient
from engine.errors import EngineError, QueueFullError, UnknownTokenError
from engine.types import ChatMessage, GenerateRequest, SamplingParams


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
