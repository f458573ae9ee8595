"""The use cases of the Conversations API: a conversation and its items."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from deployments.errors import InvalidRequestError, NotFoundError
from deployments.translate.conversation import Conversation
from deployments.translate.items import add_item
from deployments.translate.response_input import (
    PlacedItem,
    list_named,
    place_items,
    to_records,
)
from deployments.wire.responses_items import InputItem
from stores.errors import ConversationFullError
from stores.types import (
    ConversationRecord,
    History,
    HistoryQuery,
    ItemPage,
    ItemRecord,
    PageQuery,
)

Metadata = dict[str, str]


class ConversationStoreClient(Protocol):
    """What the use cases need of the store, wherever it runs (`stores.types.Store`).

    All methods raise the store's errors, and `UnavailableError` where the store does not answer.
    """

    async def read_history(self, query: HistoryQuery) -> History: ...

    async def create_conversation(
        self, record: ConversationRecord, items: tuple[ItemRecord, ...]
    ) -> None: ...

    async def get_conversation(
        self, conversation_id: str, owner: str
    ) -> ConversationRecord | None: ...

    async def update_conversation(
        self, conversation_id: str, owner: str, metadata: str
    ) -> ConversationRecord | None: ...

    async def delete_conversation(self, conversation_id: str, owner: str) -> bool: ...

    async def append_items(
        self, conversation_id: str, owner: str, items: tuple[ItemRecord, ...]
    ) -> bool: ...

    async def list_conversation_items(
        self, conversation_id: str, owner: str, query: PageQuery
    ) -> ItemPage | None: ...

    async def get_conversation_item(
        self, conversation_id: str, owner: str, item_id: str
    ) -> ItemRecord | None: ...

    async def delete_conversation_item(
        self, conversation_id: str, owner: str, item_id: str
    ) -> ConversationRecord | None: ...


@dataclass(frozen=True, slots=True)
class ConversationsService:
    """One method a use case. `owner` says whose conversation it is.

    `clock` gives seconds since the Unix epoch. All methods raise the store's errors, and
    `NotFoundError` where this owner has no such conversation or item.
    """

    store: ConversationStoreClient
    clock: Callable[[], float]
    make_id: Callable[[str], str]

    async def create(
        self, items: Sequence[InputItem], metadata: Metadata, owner: str
    ) -> ConversationRecord:
        """A new conversation with these items."""
        record = ConversationRecord(
            self.make_id("conv"), owner, int(self.clock()), encode_metadata(metadata)
        )
        await self.store.create_conversation(record, await self._to_records(items, owner))
        return record

    async def retrieve(self, conversation_id: str, owner: str) -> ConversationRecord:
        return found(await self.store.get_conversation(conversation_id, owner), conversation_id)

    async def update(
        self, conversation_id: str, metadata: Metadata, owner: str
    ) -> ConversationRecord:
        """Replace the metadata.

        Raises:
            InvalidRequestError: where there is no room for it.
        """
        text = encode_metadata(metadata)
        try:
            record = await self.store.update_conversation(conversation_id, owner, text)
        except ConversationFullError as error:
            raise InvalidRequestError(error.message, "metadata", "conversation_full") from None
        return found(record, conversation_id)

    async def delete(self, conversation_id: str, owner: str) -> None:
        if not await self.store.delete_conversation(conversation_id, owner):
            raise unknown(conversation_id)

    async def append(
        self, conversation_id: str, items: Sequence[InputItem], owner: str
    ) -> tuple[ItemRecord, ...]:
        """Add items at the end; those that are there already stay where they are.

        Raises:
            ConversationFullError: where there is no room for them.
        """
        records = await self._to_records(items, owner)
        if not await self.store.append_items(conversation_id, owner, records):
            raise unknown(conversation_id)
        return records

    async def list_items(self, conversation_id: str, query: PageQuery, owner: str) -> ItemPage:
        """A page of items.

        Raises:
            UnknownItemError: where it is to begin behind an item that is not there.
        """
        page = await self.store.list_conversation_items(conversation_id, owner, query)
        if page is None:
            raise unknown(conversation_id)
        return page

    async def retrieve_item(self, conversation_id: str, item_id: str, owner: str) -> ItemRecord:
        item = await self.store.get_conversation_item(conversation_id, owner, item_id)
        if item is None:
            raise unknown_item(conversation_id, item_id)
        return item

    async def delete_item(
        self, conversation_id: str, item_id: str, owner: str
    ) -> ConversationRecord:
        """Take an item out; what is left is the conversation without it."""
        record = await self.store.delete_conversation_item(conversation_id, owner, item_id)
        if record is None:
            raise unknown_item(conversation_id, item_id)
        return record

    async def _to_records(self, items: Sequence[InputItem], owner: str) -> tuple[ItemRecord, ...]:
        item_ids = list_named(items, is_kept=True)
        history = History()
        if item_ids:
            history = await self.store.read_history(HistoryQuery(owner, item_ids=item_ids))
        placed = tuple(place_items(items, "items", history.found))
        check_fits(placed)
        return to_records(placed, self.make_id("items"))


def check_fits(items: Sequence[PlacedItem]) -> None:
    """Refuse items that no response could go on from.

    Raises:
        InvalidRequestError: with the place of the first.
    """
    conversation = Conversation()
    for placed in items:
        add_item(conversation, placed.item, placed.param)


def encode_metadata(metadata: Metadata) -> str:
    return json.dumps(metadata)


def decode_metadata(text: str) -> Metadata:
    metadata: Metadata = json.loads(text)
    return metadata


def found(record: ConversationRecord | None, conversation_id: str) -> ConversationRecord:
    if record is None:
        raise unknown(conversation_id)
    return record


def unknown(conversation_id: str) -> NotFoundError:
    message = f"Conversation with id '{conversation_id}' not found."
    return NotFoundError(message, "conversation_id", "not_found")


def unknown_item(conversation_id: str, item_id: str) -> NotFoundError:
    """Which of the two is unknown is not told apart: one question, one step, one answer."""
    message = f"Item with id '{item_id}' not found in conversation '{conversation_id}'."
    return NotFoundError(message, "item_id", "not_found")
