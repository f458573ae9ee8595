"""What a call to all replicas comes to, when some of them die meanwhile."""

from typing import Any

import pytest
from ray.exceptions import ActorDiedError

from deployments.errors import UnavailableError
from deployments.handles import ApplicationHandle


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
