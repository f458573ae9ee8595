"""Health: well while every model has a replica and every engine's loop lives."""

from dataclasses import asdict
from typing import Any

import pytest

from deployments.errors import UnavailableError
from deployments.service import models
from engine.errors import EngineStoppedError
from engine.types import EngineStats
from tests.support.scripted import AwayEngine, ScriptedEngine
from tests.support.serving import playing, serving


def state(is_alive: bool) -> dict[str, Any]:
    return asdict(EngineStats("scripted", is_alive))


async def test_all_is_well_while_every_model_lives() -> None:
    async with serving(playing(), playing()) as served:
        reply = await served.http.get("/health")
    assert (reply.status_code, reply.json()) == (
        200,
        {"status": "ok", "models": {"app-0": [state(True)], "app-1": [state(True)]}},
    )


@pytest.mark.parametrize(
    ("ill", "shown"),
    [
        (ScriptedEngine(lambda _: (), is_alive=False), [state(False)]),
        (AwayEngine(lambda _: (), error=UnavailableError("The model is away.")), []),
        (AwayEngine(lambda _: (), error=EngineStoppedError("The thread has ended.")), []),
        (AwayEngine(lambda _: ()), []),
    ],
    ids=["dead", "away", "stopped", "silent"],
)
async def test_one_model_that_is_ill_is_enough(
    ill: ScriptedEngine, shown: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "ANSWER_S", 0)
    async with serving(playing(), ill) as served:
        reply = await served.http.get("/health")
    assert (reply.status_code, reply.json()) == (
        503,
        {"status": "unavailable", "models": {"app-0": [state(True)], "app-1": shown}},
    )


async def test_without_a_model_there_is_nothing_that_could_be_ill() -> None:
    async with serving() as served:
        reply = await served.http.get("/health")
    assert (reply.status_code, reply.json()) == (200, {"status": "ok", "models": {}})
