"""Health: well while every model has a replica and every engine's loop lives."""

import pytest

from deployments.errors import UnavailableError
from deployments.service import models
from engine.errors import EngineStoppedError
from tests.support.scripted import AwayEngine, ScriptedEngine
from tests.support.serving import playing, serving

WELL = {"replicas": 1, "alive": 1}
AWAY = {"replicas": 0, "alive": 0}


async def test_all_is_well_while_every_model_lives() -> None:
    async with serving(playing(), playing()) as served:
        reply = await served.http.get("/health")
    assert (reply.status_code, reply.json()) == (
        200,
        {"status": "ok", "models": {"app-0": WELL, "app-1": WELL}},
    )


@pytest.mark.parametrize(
    ("ill", "shown"),
    [
        (ScriptedEngine(lambda _: (), is_alive=False), {"replicas": 1, "alive": 0}),
        (AwayEngine(lambda _: (), error=UnavailableError("The model is away.")), AWAY),
        (AwayEngine(lambda _: (), error=EngineStoppedError("The thread has ended.")), AWAY),
        (AwayEngine(lambda _: ()), AWAY),
    ],
    ids=["dead", "away", "stopped", "silent"],
)
async def test_one_model_that_is_ill_is_enough(
    ill: ScriptedEngine, shown: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "ANSWER_S", 0)
    async with serving(playing(), ill) as served:
        reply = await served.http.get("/health")
    assert (reply.status_code, reply.json()) == (
        503,
        {"status": "unavailable", "models": {"app-0": WELL, "app-1": shown}},
    )


async def test_without_a_model_there_is_nothing_that_could_be_ill() -> None:
    async with serving() as served:
        reply = await served.http.get("/health")
    assert (reply.status_code, reply.json()) == (200, {"status": "ok", "models": {}})
