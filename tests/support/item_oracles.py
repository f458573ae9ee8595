"""The judges of lists of items: the Open Responses contract, and the types of openai's client."""

import json
from functools import cache
from typing import Any

from openai.types.conversations import ConversationItemList
from openai.types.responses import ResponseItemList
from pydantic import TypeAdapter

from tests.support.oracles import CONTRACT, Difference
from tests.support.schemas import Checker, Schema

WHY_STATUS = "openai's types have it; all items of an output carry one"
WHY_NULL = "an empty page begins and ends nowhere; these types have no word for that"
ITEM_DIFFERENCES = (Difference("reasoning.status", "extra", WHY_STATUS),)
EMPTY_DIFFERENCES = tuple(Difference(f"{end}_id", "value", WHY_NULL) for end in ("first", "last"))

LISTS: tuple[type, ...] = (ResponseItemList, ConversationItemList)


def check_item_list(page: Any) -> None:
    """Hold a page against openai's types of both lists, and its items against the contract.

    Raises:
        AssertionError: where it has a difference that is in no table.
    """
    for kind in LISTS:
        known = () if page["data"] else EMPTY_DIFFERENCES
        unknown = set(_read_types(kind).find(page)) - {each.finding for each in known}
        assert not unknown, f"{kind.__name__}: {sorted(unknown)}"
    for item in page["data"]:
        check_item(item)


def check_item(item: Any) -> None:
    """Hold an item against the contract; it raises as `check_item_list`."""
    unknown = set(_read_contract().find(item)) - {each.finding for each in ITEM_DIFFERENCES}
    assert not unknown, f"ItemField: {sorted(unknown)}"


@cache
def _read_types(kind: type) -> Checker:
    schema = TypeAdapter(kind).json_schema()
    return Checker(schema, schema)


@cache
def _read_contract() -> Checker:
    document: Schema = json.loads(CONTRACT.read_text())
    return Checker(document, {"$ref": "#/components/schemas/ItemField"})
