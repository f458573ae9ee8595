"""However an item was spelled, its normal form says the same, and is what the contract has."""

import json
from dataclasses import replace
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.conversations import ConversationItem
from openai.types.responses import ResponseItem
from pydantic import TypeAdapter

from deployments.errors import InvalidRequestError
from deployments.translate.conversation import Conversation
from deployments.translate.items import add_item
from deployments.wire.items import NO_DETAIL, parse_given_item, to_given_item
from deployments.wire.responses_items import ContentItem
from engine.types import ChatMessage, Media
from tests.support.oracles import CONTRACT
from tests.support.schemas import Checker

Json = dict[str, Any]
limits = settings(max_examples=8 * settings().max_examples, deadline=None)
Strategy = st.SearchStrategy[Json]

# ── any items ────────────────────────────────────────────────────────────────────────────────────

WORDS = st.text(max_size=5)
SOURCES = st.text(min_size=1, max_size=5)
DETAILS = st.sampled_from(["auto", "low", "high", None])
IDS = st.sampled_from(["call_1", "call_2", "call_3"])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)


def build(kind: str | st.SearchStrategy[str], **fields: st.SearchStrategy[Any]) -> Strategy:
    """An object of a type. A field that is null may as well be left out."""
    kinds = st.just(kind) if isinstance(kind, str) else kind
    whole = st.fixed_dictionaries({"type": kinds, **fields})
    return whole | whole.map(lambda each: {key: it for key, it in each.items() if it is not None})


URLS = SOURCES | st.fixed_dictionaries({"url": SOURCES, "detail": DETAILS})
TEXTS = build(st.sampled_from(["input_text", "output_text", "text"]), text=WORDS)
IMAGES = build("input_image", image_url=URLS, detail=DETAILS) | build("image_url", image_url=URLS)
REFUSALS = build("refusal", refusal=WORDS)
SOUNDS = st.fixed_dictionaries({"data": SOURCES, "format": st.none() | WORDS})
EXTENSIONS = build("video_url", video_url=URLS) | build("input_audio", input_audio=SOUNDS)
ANYTHING = build(st.sampled_from(["refusal", "video_url", "chart", ""]), text=JSON, more=JSON)


def say(roles: list[str], parts: Strategy) -> Strategy:
    content = WORDS | st.lists(parts, max_size=4)
    return build("message", role=st.sampled_from(roles), content=content)


def give(parts: Strategy) -> Strategy:
    output = WORDS | st.lists(parts, max_size=4)
    return build("function_call_output", call_id=IDS, output=output)


def thoughts(kinds: list[str]) -> st.SearchStrategy[Any]:
    return st.none() | st.lists(build(st.sampled_from(kinds), text=WORDS), max_size=2)


CALLS = build("function_call", call_id=IDS, name=SOURCES, arguments=WORDS)
THOUGHTS = build(
    "reasoning",
    content=thoughts(["reasoning_text", "text", "output_text"]),
    summary=thoughts(["summary_text", "text"]),
)
INPUT_ROLES = ["user", "system", "developer"]
ITEMS = st.one_of(
    say([*INPUT_ROLES, "assistant"], TEXTS | IMAGES | EXTENSIONS),
    say([*INPUT_ROLES, "assistant"], TEXTS | REFUSALS),
    give(TEXTS | IMAGES | ANYTHING),
    CALLS,
    THOUGHTS,
).map(parse_given_item)
# What the contract and openai's types have a place for.
PLAIN_ITEMS = st.one_of(
    say(INPUT_ROLES, TEXTS | IMAGES),
    say(["assistant"], TEXTS | REFUSALS),
    give(TEXTS | IMAGES),
    CALLS,
    THOUGHTS,
).map(parse_given_item)

# ── what must hold ───────────────────────────────────────────────────────────────────────────────


def keep(item: ContentItem) -> ContentItem:
    """The item as it comes back from where it is kept as text."""
    text = json.dumps(to_given_item(item, "x_1"), ensure_ascii=False, allow_nan=False)
    return parse_given_item(json.loads(text))


@limits
@given(ITEMS)
def test_the_normal_form_is_its_own(item: ContentItem) -> None:
    assert to_given_item(keep(item), "x_1") == to_given_item(item, "x_1")


@limits
@given(st.lists(ITEMS, max_size=6))
def test_what_is_kept_means_what_was_sent(items: list[ContentItem]) -> None:
    assert to_turns([keep(item) for item in items]) == to_turns(items)


def to_turns(items: list[ContentItem]) -> Any:
    """The turns and the places of media, or the place of the first item that does not fit."""
    conversation = Conversation()
    for index, item in enumerate(items):
        try:
            add_item(conversation, item, f"input[{index}]")
        except InvalidRequestError as error:
            return error.param, error.message
    places = [placed.param for placed in conversation.media]
    return places, [name_detail(turn) for turn in conversation.messages]


def name_detail(turn: ChatMessage) -> ChatMessage:
    """A picture without a detail has the one that stands for none."""
    if isinstance(turn.content, str):
        return turn
    return replace(turn, content=tuple(to_detailed(part) for part in turn.content))


def to_detailed(part: str | Media) -> str | Media:
    if isinstance(part, Media) and part.kind == "image":
        return replace(part, detail=part.detail or NO_DETAIL)
    return part


DOCUMENT: Json = json.loads(CONTRACT.read_text())
FIELD = Checker(DOCUMENT, DOCUMENT["components"]["schemas"]["ItemField"])
OPENAIS = [TypeAdapter[Any](ResponseItem), TypeAdapter[Any](ConversationItem)]


@cache
def to_checkers() -> list[Checker]:
    schemas = [types.json_schema() for types in OPENAIS]
    return [FIELD, *(Checker(schema, schema) for schema in schemas)]


@limits
@given(PLAIN_ITEMS)
def test_the_contract_and_openai_have_the_normal_form(item: ContentItem) -> None:
    form = to_given_item(item, "x_1")
    assert [finding for each in to_checkers() for finding in each.find(form)] == []


@limits
@given(PLAIN_ITEMS)
def test_openais_types_hold_the_normal_form_whole(item: ContentItem) -> None:
    form = to_given_item(item, "x_1")
    for types in OPENAIS:
        held = types.validate_python(form, strict=True)
        assert types.dump_python(held, mode="json", exclude_unset=True) == form
