"""The judge of chats and completions: the types of openai's client, held to the letter."""

from functools import cache
from typing import Any

from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import TypeAdapter

from tests.support.oracles import Difference
from tests.support.schemas import Checker

WHY_REASONING = "an extension: what the model thought, under both names that clients know"
WHY_NULL = "openai's own server sends null until the end, though its types do not say so"

BODIES: dict[str, tuple[type, tuple[Difference, ...]]] = {
    "chat.completion": (
        ChatCompletion,
        (
            Difference("choices.*.message.reasoning_content", "extra", WHY_REASONING),
            Difference("choices.*.message.reasoning", "extra", WHY_REASONING),
        ),
    ),
    "text_completion": (Completion, ()),
}
CHUNKS: dict[str, tuple[type, tuple[Difference, ...]]] = {
    "chat.completion.chunk": (
        ChatCompletionChunk,
        (
            Difference("choices.*.delta.reasoning_content", "extra", WHY_REASONING),
            Difference("choices.*.delta.reasoning", "extra", WHY_REASONING),
        ),
    ),
    "text_completion": (Completion, (Difference("choices.*.finish_reason", "value", WHY_NULL),)),
}


def check_body(body: Any) -> None:
    """Hold a whole reply against openai's type of its kind.

    Raises:
        AssertionError: where it has a difference that is in no table.
        KeyError: where it is of no kind that a reply can be.
    """
    _check(*BODIES[body["object"]], body)


def check_chunk(chunk: Any) -> None:
    """Hold a chunk of a stream against openai's type of its kind; it raises as `check_body`."""
    _check(*CHUNKS[chunk["object"]], chunk)


@cache
def _read_checker(kind: type) -> Checker:
    schema = TypeAdapter(kind).json_schema()
    return Checker(schema, schema)


def _check(kind: type, differences: tuple[Difference, ...], value: Any) -> None:
    unknown = set(_read_checker(kind).find(value)) - {each.finding for each in differences}
    assert not unknown, f"{kind.__name__}: {sorted(unknown)}"
