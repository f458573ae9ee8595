"""The items of a request and of what it goes on from: which are asked for, said, and kept."""

import json
from typing import Any

import pytest

from deployments.errors import InvalidRequestError
from deployments.resource.codec import encode_item
from deployments.resource.response import MessageItem, OutputText, ReasoningItem, ReasoningText
from deployments.translate import response_input
from deployments.translate.response_input import (
    PlacedItem,
    list_named,
    make_item_id,
    may_be_ours,
    place_items,
    to_content,
    to_history_query,
    to_records,
    to_response_input,
    to_shown_item,
)
from deployments.wire.conversations import CreateItems
from deployments.wire.items import to_given_item
from deployments.wire.parse import parse_model
from deployments.wire.responses_items import InputItem
from deployments.wire.responses_request import CreateResponse
from stores.types import History, HistoryQuery, ItemRecord, RecordStatus
from tests.support.resources import make_message
from tests.support.spots import call, message, output

Json = dict[str, Any]
HELLO = MessageItem("msg_1", "completed", (OutputText("Hello"),))
KEPT = ItemRecord("msg_1", encode_item(HELLO))
THOUGHT = ReasoningItem("rs_1", "incomplete", (ReasoningText("So."),))
SENT_BACK = make_message("Hello", item_id="msg_1")
NAMED: Json = {"type": "item_reference", "id": "msg_1"}


def request(**fields: Any) -> CreateResponse:
    return parse_model(CreateResponse, {"model": "scripted", **fields})


def parse(*items: Json) -> list[InputItem]:
    return parse_model(CreateItems, {"items": list(items)}).items


def place(*items: Json, known: tuple[str, ...] = ()) -> list[PlacedItem]:
    return list(place_items(parse(*items), "input", {"msg_1": KEPT}, known))


# ── what the store is asked for ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"input": "Hi"},
        {"input": []},
        {"input": [message(), call(), output()]},
        {"input": [message(id=None), message(id=7), message(id=""), message(id="x" * 129)]},
        {"input": [SENT_BACK], "store": False},
    ],
)
def test_a_request_that_names_nothing_needs_no_store(fields: Json) -> None:
    assert to_history_query(request(**fields), "me") is None


@pytest.mark.parametrize(
    ("fields", "query"),
    [
        ({"previous_response_id": "resp_1"}, HistoryQuery("me", "resp_1")),
        ({"conversation": "mine"}, HistoryQuery("me", None, "mine")),
        ({"conversation": {"id": "mine"}}, HistoryQuery("me", None, "mine")),
        ({"input": [NAMED]}, HistoryQuery("me", item_ids=("msg_1",))),
        ({"input": [NAMED], "store": False}, HistoryQuery("me", item_ids=("msg_1",))),
        ({"input": [SENT_BACK]}, HistoryQuery("me", item_ids=("msg_1",))),
        (
            {"input": [NAMED, message(id="b"), SENT_BACK], "previous_response_id": "resp_1"},
            HistoryQuery("me", "resp_1", None, ("msg_1", "b")),
        ),
    ],
)
def test_what_a_request_names_is_asked_for_once(fields: Json, query: HistoryQuery) -> None:
    assert to_history_query(request(**fields), "me") == query


def test_only_references_are_looked_up_where_nothing_is_kept() -> None:
    sent = parse(message(id="a"), {"id": "b"}, call(id="c"))
    assert list_named(sent, is_kept=False) == ("b",)
    assert list_named(sent, is_kept=True) == ("a", "b", "c")


@pytest.mark.parametrize("item_id", [None, 7, True, [], {"a": 1}, "", "x" * 129])
def test_what_can_be_no_id_of_ours_is_not_looked_up(item_id: object) -> None:
    assert not may_be_ours(item_id)


# ── parents ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (None, "previous_response_not_found"),
        ("in_progress", "previous_response_in_progress"),
        ("failed", "previous_response_failed"),
    ],
)
def test_a_parent_that_cannot_be_gone_on_from_is_refused(
    status: RecordStatus | None, code: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        to_response_input(request(previous_response_id="resp_1"), History(parent_status=status))
    assert (caught.value.param, caught.value.code) == ("previous_response_id", code)
    assert "'resp_1'" in caught.value.message


@pytest.mark.parametrize("status", ["completed", "incomplete", "cancelled"])
def test_a_parent_that_has_ended_is_gone_on_from(status: RecordStatus) -> None:
    history = History((KEPT,), status)
    given = to_response_input(request(previous_response_id="resp_1", input="And?"), history)
    said, asked = given.items
    assert given.is_continued
    assert (said.kept, said.param) == (KEPT, "previous_response_id")
    assert (asked.kept, asked.param) == (None, "input")


@pytest.mark.parametrize("items", [(), (KEPT,)])
def test_a_conversation_is_gone_on_from_also_where_it_is_new(items: tuple[ItemRecord, ...]) -> None:
    given = to_response_input(request(conversation="mine"), History(items))
    assert given.is_continued
    assert [placed.param for placed in given.history] == ["conversation"] * len(items)


def test_a_request_alone_goes_on_from_nothing() -> None:
    given = to_response_input(request(input=[message()]), History())
    assert (given.history, given.is_continued, len(given.own)) == ((), False, 1)


# ── which items are said, and which of them are kept already ─────────────────────────────────────


def test_an_item_that_is_named_is_the_one_that_is_kept() -> None:
    first, second = place(message(), NAMED)
    assert (first.kept, second.kept) == (None, KEPT)
    assert to_given_item(second.item, "msg_1") == SENT_BACK
    assert second.param == "input[1]"


def test_a_name_that_nobody_has_is_refused_by_its_place() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        place(message(), {"type": "item_reference", "id": "msg_2"})
    assert (caught.value.param, caught.value.code) == ("input[1].id", "item_not_found")
    assert "'msg_2'" in caught.value.message


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"status": "in_progress"},
        {"content": "Hello"},
        {"content": [{"type": "text", "text": "Hello"}]},
        {"phase": "final_answer", "type": None},
    ],
)
def test_an_item_that_says_the_same_is_the_one_that_is_kept(changes: Json) -> None:
    (placed,) = place({**SENT_BACK, **changes})
    assert placed.kept is KEPT


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "msg_2"},
        {"id": None},
        {"role": "user"},
        {"content": "Hello "},
        {"content": [*SENT_BACK["content"], {"type": "text", "text": ""}]},
    ],
)
def test_an_item_that_says_something_else_is_a_new_one(changes: Json) -> None:
    (placed,) = place({**SENT_BACK, **changes})
    assert placed.kept is None


def test_what_went_before_is_not_said_again() -> None:
    first, second = place(NAMED, message(), SENT_BACK, message(), known=("msg_1",))
    assert (first.param, second.param) == ("input[1]", "input[3]")


def test_what_is_sent_twice_is_said_twice_under_two_ids_and_what_is_named_again_once() -> None:
    placed = place(NAMED, SENT_BACK, NAMED, NAMED)
    assert [each.kept for each in placed] == [KEPT, None]
    assert len({record.item_id for record in to_records(placed, "seed")}) == 2


def test_an_item_is_read_once_however_often_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def look(record: ItemRecord) -> Any:
        read.append(record.item_id)
        return to_content(record)

    monkeypatch.setattr(response_input, "to_content", look)
    place(*[NAMED] * 50, *[SENT_BACK] * 50)
    assert read == [KEPT.item_id]


# ── what is kept of it ───────────────────────────────────────────────────────────────────────────

NEW = [message(), call(), output(), {"type": "reasoning", "summary": []}]


def test_records_are_the_same_whenever_they_are_made_and_no_two_have_one_id() -> None:
    placed = place(*NEW, *NEW)
    records = to_records(placed, "resp_1")
    assert records == to_records(placed, "resp_1")
    ids = [record.item_id for record in (*records, *to_records(placed, "resp_2"))]
    assert len(set(ids)) == 16
    prefixes = [item_id.rpartition("_")[0] for item_id in ids[:4]]
    assert prefixes == ["msg", "fc", "fco", "rs"]
    assert all(len(item_id.rpartition("_")[2]) == 32 for item_id in ids)


def test_a_seed_ends_where_the_number_begins() -> None:
    (placed,) = place(message())
    ids = {make_item_id(placed.item, seed, index) for seed, index in (("a", 11), ("a1", 1))}
    assert len(ids) == 2


def test_what_was_kept_stays_as_it_is_and_the_rest_is_kept_as_it_is_shown() -> None:
    kept, new = to_records(place(NAMED, message(id="mine", status="done")), "seed")
    assert kept is KEPT
    shown = to_shown_item(new)
    assert shown == {
        "id": new.item_id,
        "type": "message",
        "status": "completed",
        "role": "user",
        "content": [{"type": "input_text", "text": "Hi"}],
    }
    assert json.dumps(shown, separators=(",", ":")) in new.body


@pytest.mark.parametrize("text", ["é ✓ 🙂", "\u2028\x00", '"}], {'])
def test_any_text_is_kept(text: str) -> None:
    (record,) = to_records(place(message(content=text)), "seed")
    assert to_content(record) == parse(to_shown_item(record))[0]
    assert to_shown_item(record)["content"] == [{"type": "input_text", "text": text}]


def test_an_output_is_shown_as_its_response_showed_it() -> None:
    record = ItemRecord("rs_1", encode_item(THOUGHT))
    assert to_shown_item(record) == {
        "id": "rs_1",
        "type": "reasoning",
        "status": "incomplete",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "So."}],
    }
    assert to_shown_item(KEPT) == SENT_BACK
