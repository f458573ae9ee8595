"""Which models are served is what the engines themselves say."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from deployments.errors import NotFoundError, UnavailableError
from deployments.router import Route
from deployments.service import models
from deployments.service.models import ModelDirectory, ModelHealth
from engine.errors import EngineStoppedError
from engine.types import EngineStats, ModelCard
from tests.support.scripted import CARD, AwayEngine, ScriptedEngine
from tests.support.serving import playing

STATS = EngineStats("scripted", True)
AWAY = [UnavailableError("The model is away."), EngineStoppedError("ended"), None]


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that does not answer at once is away."""
    monkeypatch.setattr(models, "ANSWER_S", 0)


def set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass
class AskedEngine(ScriptedEngine):
    """Counts how often it is asked for its card, and shows it once `answers` is set."""

    num_asked: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    answers: asyncio.Event = field(default_factory=set_event)

    async def card(self) -> ModelCard:
        self.num_asked += 1
        self.asked.set()
        await self.answers.wait()
        return self.shown


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


async def test_a_model_is_found_as_soon_as_it_is_there() -> None:
    late = away(UnavailableError("The model is loading."))
    directory = ModelDirectory({"app-1": late})
    with pytest.raises(UnavailableError):
        await directory.find("scripted")
    late.is_away = False
    assert await directory.find("scripted") == Route(CARD, late)


async def test_a_model_keeps_its_names_while_it_is_away() -> None:
    engine = away(UnavailableError("The model is restarting."))
    engine.is_away = False
    directory = ModelDirectory({"app-1": engine})
    assert await directory.cards() == [CARD]
    engine.is_away = True
    assert await directory.cards() == [CARD]
    assert await directory.find("echo") == Route(CARD, engine)
    with pytest.raises(NotFoundError):
        await directory.find("another")


async def test_a_known_model_is_found_without_asking_again() -> None:
    engine = AskedEngine(lambda _: ())
    directory = ModelDirectory({"app-1": engine})
    for _ in range(3):
        await directory.find("scripted")
    assert engine.num_asked == 1


async def test_what_is_old_is_asked_again_and_nobody_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(models, "FRESH_S", -1)
    engine = AskedEngine(lambda _: ())
    directory = ModelDirectory({"app-1": engine})
    await directory.refresh()
    engine.shown = replace(CARD, name="renamed", aliases=())
    engine.asked.clear()
    assert await directory.find("scripted") == Route(CARD, engine)
    await asyncio.wait_for(engine.asked.wait(), timeout=10)
    assert await directory.find("renamed") == Route(engine.shown, engine)
    with pytest.raises(NotFoundError):
        await directory.find("scripted")


async def test_callers_who_come_together_share_one_question() -> None:
    engine = AskedEngine(lambda _: (), answers=asyncio.Event())
    directory = ModelDirectory({"app-1": engine})
    callers = [asyncio.create_task(directory.find("echo")) for _ in range(3)]
    await engine.asked.wait()
    engine.answers.set()
    assert [route.card for route in await asyncio.gather(*callers)] == [CARD] * 3
    assert engine.num_asked == 1


async def test_a_caller_who_goes_does_not_take_the_question_of_the_others_along() -> None:
    engine = AskedEngine(lambda _: (), answers=asyncio.Event())
    directory = ModelDirectory({"app-1": engine})
    first, second = (asyncio.create_task(directory.find("echo")) for _ in range(2))
    await engine.asked.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    engine.answers.set()
    assert (await second).card == CARD


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
    assert healths == [ModelHealth("app-1", [STATS], "scripted"), ModelHealth("app-2", [], "")]
    assert [health.is_alive for health in healths] == [True, False]


@pytest.mark.usefixtures("no_patience")
async def test_a_model_that_has_gone_keeps_its_name_in_what_is_told_of_its_health() -> None:
    engine = away()
    engine.is_away = False
    directory = ModelDirectory({"app-1": engine})
    assert await directory.health() == [ModelHealth("app-1", [STATS], "scripted")]
    engine.is_away = True
    assert await directory.health() == [ModelHealth("app-1", [], "scripted")]


@pytest.mark.parametrize(
    ("lives", "is_alive"), [([], False), ([True], True), ([True, False], False)]
)
def test_a_model_lives_while_each_of_its_replicas_does(lives: list[bool], is_alive: bool) -> None:
    replicas = [replace(STATS, is_alive=each) for each in lives]
    assert ModelHealth("app-1", replicas).is_alive is is_alive
