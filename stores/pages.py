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
    if query.is_descending:
        places = places[::-1]
    if query.after is not None:
        # The last of a doubled id: pages that begin at the first would never come to their end.
        seen = [it for it, place in enumerate(places) if item_ids[place] == query.after]
        if not seen:
            raise UnknownItemError("There is no such item here to go on from.")
        places = places[seen[-1] + 1 :]
    return places[: query.limit], len(places) > query.limit
