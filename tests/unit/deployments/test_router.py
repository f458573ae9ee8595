"""A model is found under its name and its aliases, and under nothing else."""

from dataclasses import replace

import pytest

from deployments.router import Route, Router
from tests.support.scripted import CARD
from tests.support.serving import playing


def make_route(name: str, *aliases: str) -> Route:
    return Route(replace(CARD, name=name, aliases=aliases), playing())


def test_a_model_is_found_by_its_name_and_each_of_its_aliases() -> None:
    small, large = make_route("small", "tiny", "s"), make_route("large", "l")
    router = Router([small, large])
    found = [router.find(name) for name in ("small", "tiny", "s", "large", "l")]
    assert found == [small, small, small, large, large]


@pytest.mark.parametrize("name", ["", "Small", "small ", "sma", "org"])
def test_another_name_is_no_model(name: str) -> None:
    assert Router([make_route("small"), make_route("org/small")]).find(name) is None


def test_no_routes_are_no_models() -> None:
    router = Router(())
    assert (router.find("small"), router.cards()) == (None, [])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (make_route("same"), make_route("same")),
        (make_route("a", "same"), make_route("same")),
        (make_route("same"), make_route("b", "same")),
        (make_route("a", "same"), make_route("b", "same")),
    ],
    ids=["name, name", "alias, name", "name, alias", "alias, alias"],
)
def test_of_two_models_with_one_name_the_earlier_has_it_and_the_log_says_so(
    first: Route, second: Route, caplog: pytest.LogCaptureFixture
) -> None:
    router = Router([first, second])
    assert router.find("same") == first
    assert caplog.messages == ["two models are called 'same', the later one is not reachable"]


def test_the_later_of_two_keeps_its_other_names() -> None:
    first, second = make_route("same"), make_route("same", "other")
    assert Router([first, second]).find("other") == second


def test_cards_come_in_the_order_of_the_routes() -> None:
    routes = [make_route(name) for name in ("c", "a", "b")]
    assert Router(iter(routes)).cards() == [route.card for route in routes]
