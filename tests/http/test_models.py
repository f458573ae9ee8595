"""Models, by any printable name."""

from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from openai import InternalServerError, NotFoundError

from deployments.errors import UnavailableError
from tests.support.scripted import CARD, AwayEngine, ScriptedEngine, saying
from tests.support.serving import playing, serving

NAMES = [
    "scripted",
    "org/name",
    "org/sub/name",
    "qwen3:14b-q4_k_m",
    "two words",
    "modèle 🙂",
    "what?#%2F&=+",
    "v1.5@main;x",
]


def named(name: str, *aliases: str) -> ScriptedEngine:
    return ScriptedEngine(
        lambda _: saying("Hello"), shown=replace(CARD, name=name, aliases=aliases)
    )


def model(name: str, *aliases: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": 1_700_000_000,
        "owned_by": "antiphon",
        "aliases": list(aliases),
        "context_length": 1000,
    }


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_models_are_listed_in_their_order(prefix: str) -> None:
    async with serving(named("b", "alias"), named("a/é")) as served:
        reply = await served.http.get(f"{prefix}/models")
    assert (reply.status_code, reply.json()) == (
        200,
        {"object": "list", "data": [model("b", "alias"), model("a/é")]},
    )


async def test_openais_client_lists_models() -> None:
    async with serving(named("b"), named("a/é")) as served:
        page = await served.openai.models.list()
    assert [(each.id, each.created) for each in page.data] == [
        ("b", 1_700_000_000),
        ("a/é", 1_700_000_000),
    ]


async def test_a_model_that_is_away_is_not_listed() -> None:
    away = AwayEngine(lambda _: (), error=UnavailableError("The model is away."))
    async with serving(away, named("a")) as served:
        page = await served.openai.models.list()
    assert [each.id for each in page.data] == ["a"]


@pytest.mark.parametrize("name", NAMES)
async def test_openais_client_finds_a_model_by_its_name_and_by_its_alias(name: str) -> None:
    async with serving(named(name), named("other", f"alias {name}")) as served:
        found = await served.openai.models.retrieve(name)
        by_alias = await served.openai.models.retrieve(f"alias {name}")
    assert found.to_dict() == model(name)
    assert by_alias.to_dict() == model("other", f"alias {name}")


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize("safe", ["", "/:"], ids=["all escaped", "slashes as they are"])
@pytest.mark.parametrize("name", NAMES)
async def test_a_name_may_be_spelled_in_a_path_in_either_way(
    prefix: str, safe: str, name: str
) -> None:
    async with serving(named(name)) as served:
        reply = await served.http.get(f"{prefix}/models/{quote(name, safe=safe)}")
    assert (reply.status_code, reply.json()) == (200, model(name))


@pytest.mark.parametrize("name", NAMES)
async def test_a_response_repeats_the_name_that_it_was_asked_for_by(name: str) -> None:
    async with serving(named("other", name)) as served:
        response = await served.openai.responses.create(model=name, input="Hi")
    assert (response.model, response.output_text) == (name, "Hello")


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize("name", ["gpt-9", "org/gpt-9", "scripted/", ""])
async def test_a_name_that_nobody_has_is_not_found(prefix: str, name: str) -> None:
    async with serving(playing()) as served:
        reply = await served.http.get(f"{prefix}/models/{name}")
    assert (reply.status_code, reply.json()) == (
        404,
        {
            "error": {
                "message": f"The model '{name}' does not exist here.",
                "type": "not_found",
                "param": "model",
                "code": "model_not_found",
            }
        },
    )


async def test_openais_client_is_told_of_a_model_that_is_unknown_or_loading() -> None:
    away = AwayEngine(lambda _: (), error=UnavailableError("The model is away."))
    async with serving(playing()) as served:
        with pytest.raises(NotFoundError):
            await served.openai.models.retrieve("gpt-9")
    async with serving(playing(), away) as served:
        with pytest.raises(InternalServerError) as caught:
            await served.openai.models.retrieve("gpt-9")
    assert (caught.value.status_code, caught.value.response.headers["retry-after"]) == (503, "2")
