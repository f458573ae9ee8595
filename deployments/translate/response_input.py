"""What a response goes on from and is asked: the items of its history, then those of its input.

An item has an id of ours for ever. One that a client sends back keeps it where the store has that
very item, and is then no second one; any other gets a new id, whatever id it was sent with.
"""

import hashlib
import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deployments.errors import NO_PARENT, PREVIOUS, InvalidRequestError
from deployments.resource.codec import decode_item, encode_item
from deployments.resource.response import GivenItem
from deployments.wire.items import parse_given_item, to_given_item
from deployments.wire.responses import to_item
from deployments.wire.responses_items import (
    ContentItem,
    FunctionCall,
    FunctionCallOutput,
    InputItem,
    InputMessage,
    ItemReference,
    Reasoning,
)
from deployments.wire.responses_request import CreateResponse
from stores.types import History, HistoryQuery, ItemRecord

CONVERSATION = "conversation"
MAX_ID_CHARACTERS = 128  # of an id that can be one of ours


@dataclass(frozen=True, slots=True)
class PlacedItem:
    """An item, its place for errors, and its record where the store has it already."""

    item: ContentItem
    param: str
    kept: ItemRecord | None = None


@dataclass(frozen=True, slots=True)
class ResponseInput:
    """The whole of it; `is_continued` says that the request goes on from something."""

    history: tuple[PlacedItem, ...]
    own: tuple[PlacedItem, ...]
    is_continued: bool

    @property
    def items(self) -> tuple[PlacedItem, ...]:
        return (*self.history, *self.own)


def to_history_query(request: CreateResponse, owner: str) -> HistoryQuery | None:
    """What the store is asked for a request; None where it is not needed.

    Items that are sent whole are looked for only where they may be kept: whoever stores nothing
    here is taken at its word.
    """
    sent = request.input if isinstance(request.input, list) else []
    item_ids = list_named(sent, is_kept=request.store is not False)
    query = HistoryQuery(
        owner,
        request.previous_response_id,
        request.conversation_id,
        item_ids,
    )
    return None if query == HistoryQuery(owner) else query


def list_named(sent: Iterable[InputItem], is_kept: bool) -> tuple[str, ...]:
    """The ids, each once, that the store is to be asked for."""
    ids = (
        item.id
        for item in sent
        if isinstance(item, ItemReference) or (is_kept and may_be_ours(item.id))
    )
    return tuple(dict.fromkeys(ids))


def may_be_ours(item_id: object) -> bool:
    return isinstance(item_id, str) and 0 < len(item_id) <= MAX_ID_CHARACTERS


def to_response_input(request: CreateResponse, history: History) -> ResponseInput:
    """The input of a request after its history.

    Raises:
        InvalidRequestError: where it cannot go on from its parent, or names an item that this
            caller does not have.
    """
    if request.previous_response_id is not None:
        check_parent(request.previous_response_id, history)
    param = PREVIOUS if request.previous_response_id is not None else CONVERSATION
    before = tuple(PlacedItem(to_content(record), param, record) for record in history.items)
    known = {record.item_id for record in history.items}
    return ResponseInput(
        history=before,
        own=place_own(request, history.found, known),
        is_continued=bool(request.previous_response_id or request.conversation_id),
    )


def check_parent(parent_id: str, history: History) -> None:
    """A parent is there, has ended, and has not failed.

    Raises:
        InvalidRequestError: where it is not.
    """
    match history.parent_status:
        case None:
            message = f"Previous response with id '{parent_id}' not found."
            raise InvalidRequestError(message, PREVIOUS, NO_PARENT)
        case "in_progress":
            message = f"The response '{parent_id}' still runs; go on from it when it has ended."
            raise InvalidRequestError(message, PREVIOUS, "previous_response_in_progress")
        case "failed":
            message = f"The response '{parent_id}' has failed: there is nothing to go on from."
            raise InvalidRequestError(message, PREVIOUS, "previous_response_failed")


def place_own(
    request: CreateResponse, found: Mapping[str, ItemRecord], known: set[str]
) -> tuple[PlacedItem, ...]:
    if isinstance(request.input, str):
        return (PlacedItem(InputMessage(role="user", content=request.input), "input"),)
    return tuple(place_items(request.input or (), "input", found, known))


def place_items(
    sent: Sequence[InputItem],
    name: str,
    found: Mapping[str, ItemRecord],
    known: Container[str] = (),
) -> Iterator[PlacedItem]:
    """Items and their places under `name`; those that went before (`known`) are not said twice.

    Nor is what is named twice: a short list of names would make a long input.

    Raises:
        InvalidRequestError: for one that names an item that this caller does not have.
    """
    kept_items, used = KeptItems(found), set[str]()
    for index, item in enumerate(sent):
        placed = place_item(item, f"{name}[{index}]", kept_items)
        kept = placed.kept
        if kept is None:
            yield placed
        elif kept.item_id not in known:
            if kept.item_id not in used:
                yield placed
            elif not isinstance(item, ItemReference):
                yield replace(placed, kept=None)  # what is sent twice is said twice
            used.add(kept.item_id)


@dataclass(frozen=True, slots=True)
class KeptItem:
    """An item that the store has, as if it had just been sent, and its form without an id."""

    record: ItemRecord
    content: ContentItem
    form: dict[str, Any]


class KeptItems:
    """The items that the store has found. Each is read once, however often it is named."""

    def __init__(self, found: Mapping[str, ItemRecord]) -> None:
        self._found = found
        self._read: dict[str, KeptItem] = {}

    def find(self, item_id: str) -> KeptItem | None:
        if item_id not in self._found:
            return None
        if item_id not in self._read:
            record = self._found[item_id]
            content = to_content(record)
            self._read[item_id] = KeptItem(record, content, to_given_item(content, ""))
        return self._read[item_id]


def place_item(sent: InputItem, param: str, kept_items: KeptItems) -> PlacedItem:
    kept = kept_items.find(sent.id) if may_be_ours(sent.id) else None
    if isinstance(sent, ItemReference):
        if kept is None:
            message = f"Item with id '{sent.id}' not found."
            raise InvalidRequestError(message, f"{param}.id", "item_not_found")
        return PlacedItem(kept.content, param, kept.record)
    is_same = kept is not None and to_given_item(sent, "") == kept.form
    return PlacedItem(sent, param, kept.record if kept is not None and is_same else None)


def to_shown_item(record: ItemRecord) -> dict[str, object]:
    """An item as lists of items show it."""
    item = decode_item(record.item_id, record.body)
    if not isinstance(item, GivenItem):
        return to_item(item)
    shown: dict[str, object] = json.loads(item.text)
    return shown


def to_content(record: ItemRecord) -> ContentItem:
    """An item that was kept as if it had just been sent."""
    return parse_given_item(to_shown_item(record))


# ── what is kept of it ───────────────────────────────────────────────────────────────────────────

PREFIXES: dict[type[ContentItem], str] = {
    InputMessage: "msg",
    FunctionCall: "fc",
    FunctionCallOutput: "fco",
    Reasoning: "rs",
}


def to_records(items: Iterable[PlacedItem], seed: str) -> tuple[ItemRecord, ...]:
    """The records of items, the same whenever they are made with this seed."""
    return tuple(
        placed.kept or to_given_record(placed.item, make_item_id(placed.item, seed, index))
        for index, placed in enumerate(items)
    )


def make_item_id(item: ContentItem, seed: str, index: int) -> str:
    """As hard to guess as the seed, an id of ours whose 128 bits are random."""
    digest = hashlib.blake2b(f"{seed}/{index}".encode(), digest_size=16).hexdigest()
    return f"{PREFIXES[type(item)]}_{digest}"


def to_given_record(item: ContentItem, item_id: str) -> ItemRecord:
    text = json.dumps(to_given_item(item, item_id), ensure_ascii=False, separators=(",", ":"))
    return ItemRecord(item_id, encode_item(GivenItem(item_id, text)))
