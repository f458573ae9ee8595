"""A model as OpenAI's clients read it."""

from dataclasses import replace

from deployments.wire.models import to_model, to_model_list
from tests.support.scripted import CARD

MODEL = {
    "id": "scripted",
    "object": "model",
    "created": 1_700_000_000,
    "owned_by": "antiphon",
    "aliases": ["echo"],
    "context_length": 1000,
}


def test_a_model_is_what_its_card_says() -> None:
    assert to_model(CARD) == MODEL


def test_models_are_listed_in_their_order() -> None:
    other = replace(CARD, name="org/other:q4 🙂", aliases=(), context_length=7)
    assert to_model_list([other, CARD]) == {
        "object": "list",
        "data": [
            {**MODEL, "id": "org/other:q4 🙂", "aliases": [], "context_length": 7},
            MODEL,
        ],
    }
