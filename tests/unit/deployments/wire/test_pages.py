"""A query asks for a page, or is refused by the key at fault."""

import pytest
from openai.types.conversations import ConversationItemList
from openai.types.responses import ResponseItemList

from deployments.errors import InvalidRequestError
from deployments.wire.pages import parse_page, to_item_list
from stores.types import PageQuery
from tests.support.resources import make_message

Query = list[tuple[str, str]]
NO_COUNT = ["", "0", "101", "-1", "+1", " 1", "1.0", "1e1", "many", "٣", "null", "9" * 5000]


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ([], PageQuery(20, None, True)),
        ([("limit", "1")], PageQuery(1)),
        ([("limit", "100"), ("order", "asc")], PageQuery(100, None, False)),
        ([("limit", "007"), ("order", "desc")], PageQuery(7)),
        ([("after", "msg_1")], PageQuery(20, "msg_1")),
        ([("after", "ä" * 512), ("colour", "red")], PageQuery(20, "ä" * 512)),
        ([("limit", "5"), ("limit", "5")], PageQuery(5)),
        ([("include[]", "a"), ("include[]", "b"), ("include", "c")], PageQuery(20)),
    ],
)
def test_a_query_asks_for_a_page(query: Query, page: PageQuery) -> None:
    assert parse_page(query) == page


@pytest.mark.parametrize(
    ("query", "code"),
    [
        *(([("limit", text)], "invalid_value") for text in NO_COUNT),
        *(([("order", text)], "unsupported_value") for text in ("", "ASC", "up", "asc ")),
        ([("after", "")], "invalid_value"),
        ([("after", "a" * 513)], "invalid_value"),
        *(([("before", text)], "unsupported_value") for text in ("msg_1", "")),
        ([("limit", "5"), ("limit", "6")], "invalid_value"),
        ([("limit", "5"), ("limit", "05")], "invalid_value"),
        ([("order", "asc"), ("order", "desc"), ("limit", "5")], "invalid_value"),
        ([("after", "a"), ("limit", "5"), ("after", "b")], "invalid_value"),
    ],
)
def test_a_wrong_value_is_refused_by_its_key(query: Query, code: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_page(query)
    assert (caught.value.param, caught.value.code) == (query[0][0], code)
    assert f"'{query[0][0]}'" in caught.value.message
    assert len(caught.value.message) < 100


def test_a_page_says_where_it_begins_and_ends() -> None:
    items = [make_message("Hi", item_id=f"msg_{number}") for number in (3, 2, 1)]
    page = to_item_list(items, has_more=True)
    assert page == {
        "object": "list",
        "data": items,
        "first_id": "msg_3",
        "last_id": "msg_1",
        "has_more": True,
    }
    for types in (ConversationItemList, ResponseItemList):
        held = types.model_validate(page, strict=True)
        assert held.model_dump(mode="json", exclude_unset=True) == page


def test_an_empty_page_begins_and_ends_nowhere() -> None:
    assert to_item_list([], has_more=False) == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    }
