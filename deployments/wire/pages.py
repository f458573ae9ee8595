"""Pages of items: what a query asks for, and how a list is shown."""

from collections.abc import Sequence
from typing import Any

from deployments.errors import InvalidRequestError
from deployments.wire.base import UNSUPPORTED
from stores.types import PageQuery

DEFAULT_LIMIT, MAX_LIMIT = 20, 100  # OpenAI's
MAX_ID_CHARACTERS = 512
ORDERS = {"asc": False, "desc": True}


def parse_page(query: Sequence[tuple[str, str]]) -> PageQuery:
    """The page that the keys and values of a query ask for; keys that nobody knows are ignored.

    Raises:
        InvalidRequestError: for the first value that is wrong, with its key.
    """
    values = collect(query, ("limit", "order", "after"))
    if any(key == "before" for key, _ in query):
        raise InvalidRequestError(
            "'before' is not supported by this server; use 'after', with the other 'order'.",
            "before",
            UNSUPPORTED,
        )
    return PageQuery(
        limit=to_limit(values["limit"]) if "limit" in values else DEFAULT_LIMIT,
        after=to_cursor(values["after"]) if "after" in values else None,
        is_descending=to_order(values["order"]) if "order" in values else True,
    )


def collect(query: Sequence[tuple[str, str]], keys: Sequence[str]) -> dict[str, str]:
    """The values of some keys.

    Raises:
        InvalidRequestError: where one has two values.
    """
    values: dict[str, str] = {}
    for key, value in query:
        if key in keys and values.setdefault(key, value) != value:
            raise wrong(key, "it has two values")
    return values


def to_limit(text: str) -> int:
    is_count = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_LIMIT))
    if not (is_count and 1 <= int(text) <= MAX_LIMIT):
        raise wrong("limit", f"it must be a whole number from 1 to {MAX_LIMIT}")
    return int(text)


def to_order(text: str) -> bool:
    """Whether the newest come first."""
    if text not in ORDERS:
        raise wrong("order", "it must be 'asc' or 'desc'", UNSUPPORTED)
    return ORDERS[text]


def to_cursor(text: str) -> str:
    if not 1 <= len(text) <= MAX_ID_CHARACTERS:
        raise wrong("after", f"it must be an item's id, of 1 to {MAX_ID_CHARACTERS} characters")
    return text


def wrong(key: str, reason: str, code: str = "invalid_value") -> InvalidRequestError:
    return InvalidRequestError(f"Invalid value for '{key}': {reason}.", key, code)


def to_item_list(items: Sequence[dict[str, Any]], has_more: bool) -> dict[str, Any]:
    """A page of items; an empty one has no first and no last."""
    return {
        "object": "list",
        "data": list(items),
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": has_more,
    }
