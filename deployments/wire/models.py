"""OpenAI's model objects."""

from typing import Any

from engine.types import ModelCard


def to_model(card: ModelCard) -> dict[str, Any]:
    """A model; the fields after the first four are ours."""
    return {
        "id": card.name,
        "object": "model",
        "created": card.created_at,
        "owned_by": "antiphon",
        "aliases": list(card.aliases),
        "context_length": card.context_length,
    }


def to_model_list(cards: list[ModelCard]) -> dict[str, Any]:
    return {"object": "list", "data": [to_model(card) for card in cards]}
