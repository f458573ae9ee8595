"""Whatever items a request has, its turns say all of it, in order, each in its own role."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.errors import InvalidRequestError
from deployments.resource.response import (
    FunctionCallItem,
    ItemStatus,
    MessageItem,
    OutputItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
)
from deployments.translate import request as translation
from deployments.translate.conversation import MOVED
from deployments.translate.response_input import to_response_input
from deployments.wire.parse import parse_model
from deployments.wire.responses import to_item
from deployments.wire.responses_request import CreateResponse
from engine.types import ChatMessage, Media, SampledLogprob, TokenLogprob
from stores.types import History
from tests.support.scripted import CARD

Json = dict[str, Any]

SEEING = replace(CARD, media=("image", "video", "audio"))
IDS = ("call_1", "call_2", "call_3")
limits = settings(max_examples=2 * settings().max_examples, deadline=None)


def to_messages(body: dict[str, Any]) -> tuple[ChatMessage, ...]:
    wanted = parse_model(CreateResponse, body)
    given = to_response_input(wanted, History())
    return translation.to_messages(wanted.instructions, given, SEEING)


# ── any items ────────────────────────────────────────────────────────────────────────────────────

# What a text is matters not, only where it ends up: `number` makes each one different.
TEXT_KINDS = st.sampled_from(["input_text", "output_text", "text"])
TEXTS: st.SearchStrategy[Json] = st.builds(lambda kind: {"type": kind, "text": None}, TEXT_KINDS)
IMAGES: st.SearchStrategy[Json] = st.sampled_from(
    [{"type": "input_image", "image_url": None}, {"type": "image_url", "image_url": None}]
)
OTHERS: st.SearchStrategy[Json] = st.sampled_from(
    [{"type": "video_url", "video_url": None}, {"type": "input_audio", "input_audio": None}]
)
PLAIN: st.SearchStrategy[Json] = st.just({"type": "text", "text": None})
CONTENTS = st.none() | st.lists(TEXTS | IMAGES | OTHERS, max_size=4)
ROLES = st.sampled_from(["user", "assistant", "system", "developer"])
ITEMS: st.SearchStrategy[Json] = st.one_of(
    st.builds(lambda role, content: {"role": role, "content": content}, ROLES, CONTENTS),
    st.builds(
        lambda key, parts: {"type": "reasoning", key: parts},
        st.sampled_from(["content", "summary"]),
        st.lists(PLAIN, max_size=2),
    ),
    st.builds(
        lambda call_id: {"type": "function_call", "call_id": call_id, "arguments": None},
        st.sampled_from(IDS),
    ),
    st.builds(
        lambda call_id, parts: {
            "type": "function_call_output",
            "call_id": call_id,
            "output": parts,
        },
        st.sampled_from(IDS),
        st.none() | st.lists(TEXTS | IMAGES, max_size=4),
    ),
)


def fill(items: Sequence[Json]) -> list[Json]:
    """The items with a text or a source of its own wherever one is None; calls have distinct ids
    while they are unanswered."""
    numbers = iter(range(1_000_000))
    unanswered: set[str] = set()
    filled = []
    for item in items:
        full = number_gaps(item, numbers)
        if full.get("type") == "function_call":
            if full["call_id"] in unanswered:
                continue
            unanswered.add(full["call_id"])
            full["name"] = "f"
        elif full.get("type") == "function_call_output":
            unanswered.discard(full["call_id"])
        filled.append(full)
    return filled


def number_gaps(value: Any, numbers: Iterator[int]) -> Any:
    if value is None:
        return f"<{next(numbers)}>"
    if isinstance(value, list):
        return [number_gaps(each, numbers) for each in value]
    if isinstance(value, dict):
        full = {key: number_gaps(each, numbers) for key, each in value.items()}
        audio = full.get("input_audio")
        return {**full, "input_audio": {"data": audio}} if isinstance(audio, str) else full
    return value


INPUTS = st.lists(ITEMS, max_size=10).map(fill)


def list_sent(items: Sequence[Json], is_medium: bool) -> list[str]:
    """The texts, or the sources of media, in the order in which they were sent."""
    found: list[str] = []
    for item in items:
        for key in ("arguments", "content", "summary", "output"):
            value = item.get(key, [])
            parts = [{"type": "text", "text": value}] if isinstance(value, str) else value
            found += [read_part(part) for part in parts if ("text" not in part) == is_medium]
    return found


def read_part(part: Json) -> str:
    (value,) = (value for key, value in part.items() if key != "type")
    return str(value["data"] if isinstance(value, dict) else value)


def list_told(messages: Sequence[ChatMessage]) -> list[str]:
    """The texts of the turns, in the order in which a template would render them."""
    told: list[str] = []
    for message in messages:
        parts = message.content if isinstance(message.content, tuple) else (message.content,)
        texts = [message.reasoning or "", *(part for part in parts if isinstance(part, str))]
        lines = [line for text in texts for line in text.split("\n") if line]
        told += [line for line in lines if line != MOVED]
        told += [call.arguments for call in message.tool_calls]
    return told


def translate(items: Sequence[Json]) -> tuple[ChatMessage, ...]:
    body = {"model": "scripted", "instructions": "Sing.", "input": list(items)}
    leading, *messages = to_messages(body)
    assert leading == ChatMessage("system", "Sing.")
    return tuple(messages)


@limits
@given(INPUTS)
def test_every_text_is_kept_once_and_in_order(items: list[Json]) -> None:
    assert list_told(translate(items)) == list_sent(items, is_medium=False)


@limits
@given(INPUTS)
def test_every_medium_is_kept_in_order_and_stands_in_a_turn_of_the_user(items: list[Json]) -> None:
    found: list[str] = []
    for message in translate(items):
        parts = [part for part in message.content if isinstance(part, Media)]
        assert not parts or message.role == "user"
        found += [part.source for part in parts]
    assert found == list_sent(items, is_medium=True)


@limits
@given(INPUTS)
def test_calls_are_the_assistants_and_stay_in_order_with_their_outputs(items: list[Json]) -> None:
    told: list[tuple[str, str | None]] = []
    for message in translate(items):
        assert message.role == "assistant" or not (message.tool_calls or message.reasoning)
        assert (message.role == "tool") == (message.call_id is not None)
        told += [("function_call", call.call_id) for call in message.tool_calls]
        told += [("function_call_output", message.call_id)] if message.role == "tool" else []
    sent = [(item["type"], item["call_id"]) for item in items if "call_id" in item]
    assert told == sent


@limits
@given(INPUTS)
def test_media_follow_the_output_that_speaks_of_them(items: list[Json]) -> None:
    messages = translate(items)
    for index, message in enumerate(messages):
        lines = message.content.split("\n") if isinstance(message.content, str) else []
        if MOVED not in lines:
            continue
        assert (message.role, lines[-1], lines.count(MOVED)) == ("tool", MOVED, 1)
        assert all(isinstance(part, Media) for part in messages[index + 1].content)


# ── any output, sent back ────────────────────────────────────────────────────────────────────────

STATUSES: st.SearchStrategy[ItemStatus] = st.sampled_from(["completed", "incomplete"])
ANY_TEXT = st.text(max_size=8)
LOGPROBS = (SampledLogprob(TokenLogprob(b"\xff", -0.5), (TokenLogprob(b"a", -1.0),)),)
OUTPUT_ITEMS: st.SearchStrategy[OutputItem] = st.one_of(
    st.builds(
        MessageItem,
        st.just("msg_1"),
        STATUSES,
        st.lists(st.builds(OutputText, ANY_TEXT, st.sampled_from([(), LOGPROBS])), max_size=2).map(
            tuple
        ),
    ),
    st.builds(
        ReasoningItem,
        st.just("rs_1"),
        STATUSES,
        st.lists(st.builds(ReasoningText, ANY_TEXT), max_size=2).map(tuple),
    ),
    st.builds(FunctionCallItem, st.just("fc_1"), STATUSES, st.just(""), st.just("f"), ANY_TEXT),
)


def give_ids(items: list[OutputItem]) -> list[OutputItem]:
    """A call's id is its own."""
    return [
        replace(item, call_id=f"call_{index}") if isinstance(item, FunctionCallItem) else item
        for index, item in enumerate(items)
    ]


@limits
@given(st.lists(OUTPUT_ITEMS, max_size=6).map(give_ids))
def test_an_output_sent_back_is_understood(output: list[OutputItem]) -> None:
    messages = translate([to_item(item) for item in output])
    assert all(message.role == "assistant" for message in messages)
    calls = [call for message in messages for call in message.tool_calls]
    sent = [item for item in output if isinstance(item, FunctionCallItem)]
    assert [(c.call_id, c.arguments) for c in calls] == [(c.call_id, c.arguments) for c in sent]
    texts = [message.content for message in messages if message.content]
    said = ["\n".join(p.text for p in item.content) for item in output if item.kind == "message"]
    assert texts == [text for text in said if text]


# ── anything at all ──────────────────────────────────────────────────────────────────────────────

WORDS = st.sampled_from(
    ["message", "reasoning", "function_call", "text", "input_image", "file", "<text>", "", "user"]
)
KEYS = st.sampled_from(
    ["type", "role", "content", "text", "output", "id", "call_id", "image_url", "summary", "<text>"]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)
FIELDS = st.sampled_from(["input", "tools", "tool_choice", "text", "reasoning", "metadata", "stop"])


@settings(max_examples=5 * settings().max_examples, deadline=None)
@given(FIELDS, ANYTHING)
def test_anything_else_is_refused_by_a_place_inside_its_field(field: str, value: Any) -> None:
    body = {"model": "scripted", "instructions": "Sing.", field: value}
    try:
        to_messages(body)
    except InvalidRequestError as error:
        assert error.param is not None
        assert error.param.startswith(field)
        assert len(error.message) < 1000


@pytest.mark.parametrize("items", [[], [{"role": "user", "content": " "}]])
def test_instructions_alone_are_enough(items: list[Json]) -> None:
    assert [message.role for message in translate(items)] == ["user"] * len(items)
