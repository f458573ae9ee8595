"""Which of some items a page has."""

from collections.abc import Sequence

from stores.errors import UnknownItemError
from stores.types import PageQuery


def cut_page(item_ids: Sequence[str], query: PageQuery) -> tuple[range, bool]:
    """The places of a page's items in `item_ids`, in the page's order, and whether more follow.

    Raises:
        UnknownItemError: where the cursor is not among the items.
    """
    places = range(len(item_ids))
    if query.after is not None:
        cursor = _find(item_ids, query.after)
        places = range(cursor) if query.is_descending else places[cursor + 1 :]
    if query.is_descending:
        places = places[::-1]
    return places[: query.limit], len(places) > query.limit


def _find(item_ids: Sequence[str], item_id: str) -> int:
    try:
        return item_ids.index(item_id)
    except ValueError:
        raise UnknownItemError("There is no such item here to go on from.") from None
