"""Which models are served is what the engines themselves say."""

import asyncio
from dataclasses import replace

import pytest

from deployments.errors import NotFoundError, UnavailableError
from deployments.router import Route
from deployments.service import models
from deployments.service.models import ModelDirectory, ModelHealth
from engine.errors import EngineStoppedError
from engine.types import EngineStats, ModelCard
from tests.support.scripted import CARD, AwayEngine, ScriptedEngine
from tests.support.serving import playing

STATS = EngineStats(True, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
AWAY = [UnavailableError("The model is away."), EngineStoppedError("ended"), None]


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that does not answer at once is away."""
    monkeypatch.setattr(models, "ANSWER_S", 0)


def away(error: Exception | None = None) -> AwayEngine:
    return AwayEngine(lambda _: (), error=error)


def named(name: str, *aliases: str) -> ScriptedEngine:
    return ScriptedEngine(lambda _: (), shown=replace(CARD, name=name, aliases=aliases))


async def test_a_model_is_found_by_the_names_on_its_card() -> None:
    small, large = named("small", "s"), named("large")
    directory = ModelDirectory({"app-1": small, "app-2": large})
    assert await directory.find("s") == Route(small.shown, small)
    assert await directory.find("large") == Route(large.shown, large)


async def test_an_unknown_name_is_no_model() -> None:
    with pytest.raises(NotFoundError) as caught:
        await ModelDirectory({"app-1": named("small")}).find("app-1")
    assert vars(caught.value) == {
        "message": "The model 'app-1' does not exist here.",
        "param": "model",
        "code": "model_not_found",
    }


@pytest.mark.parametrize("error", AWAY, ids=["away", "stopped", "silent"])
@pytest.mark.usefixtures("no_patience")
async def test_an_unknown_name_may_be_that_of_a_model_that_is_away(
    error: Exception | None,
) -> None:
    directory = ModelDirectory({"app-1": named("small"), "app-2": away(error)})
    with pytest.raises(UnavailableError) as caught:
        await directory.find("large")
    assert (caught.value.param, caught.value.code) == ("model", "model_loading")


@pytest.mark.usefixtures("no_patience")
async def test_a_model_that_answers_is_found_while_another_is_away() -> None:
    small = named("small")
    directory = ModelDirectory({"app-1": away(), "app-2": small})
    assert await directory.find("small") == Route(small.shown, small)
    assert await directory.cards() == [small.shown]


@pytest.mark.usefixtures("no_patience")
async def test_a_model_is_found_as_soon_as_it_is_there() -> None:
    late = away(UnavailableError("The model is loading."))
    directory = ModelDirectory({"app-1": late})
    with pytest.raises(UnavailableError):
        await directory.find("scripted")
    late.error = None
    assert await directory.cards() == []
    directory = ModelDirectory({"app-1": named("scripted")})
    assert (await directory.find("scripted")).card == replace(CARD, aliases=())


async def test_a_known_model_is_found_without_asking_again() -> None:
    asked: list[str] = []

    class Counting(ScriptedEngine):
        async def card(self) -> ModelCard:
            asked.append(self.shown.name)
            return self.shown

    directory = ModelDirectory({"app-1": Counting(lambda _: ())})
    for _ in range(3):
        await directory.find("scripted")
    assert asked == ["scripted"]


async def test_callers_who_come_together_share_one_question() -> None:
    asked: list[str] = []
    is_loaded = asyncio.Event()

    class Slow(ScriptedEngine):
        async def card(self) -> ModelCard:
            asked.append(self.shown.name)
            await is_loaded.wait()
            return self.shown

    directory = ModelDirectory({"app-1": Slow(lambda _: ())})
    callers = [asyncio.create_task(directory.find("echo")) for _ in range(3)]
    await asyncio.sleep(0)
    is_loaded.set()
    assert [route.card for route in await asyncio.gather(*callers)] == [CARD] * 3
    assert asked == ["scripted"]


async def test_cards_come_in_the_order_of_the_settings() -> None:
    engines = {f"app-{name}": named(name) for name in ("c", "a", "b")}
    cards = await ModelDirectory(engines).cards()
    assert [card.name for card in cards] == ["c", "a", "b"]


@pytest.mark.parametrize("error", AWAY, ids=["away", "stopped", "silent"])
@pytest.mark.usefixtures("no_patience")
async def test_the_health_of_a_model_that_does_not_answer_is_nothing(
    error: Exception | None,
) -> None:
    directory = ModelDirectory({"app-1": playing(), "app-2": away(error)})
    healths = await directory.health()
    assert healths == [ModelHealth("app-1", [STATS]), ModelHealth("app-2", [])]
    assert [health.is_alive for health in healths] == [True, False]


@pytest.mark.parametrize(
    ("lives", "is_alive"), [([], False), ([True], True), ([True, False], False)]
)
def test_a_model_lives_while_each_of_its_replicas_does(lives: list[bool], is_alive: bool) -> None:
    replicas = [replace(STATS, is_alive=each) for each in lives]
    assert ModelHealth("app-1", replicas).is_alive is is_alive
