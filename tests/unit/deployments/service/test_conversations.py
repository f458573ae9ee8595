"""The use cases of conversations over a real store: what they keep, ask for and refuse."""

from collections.abc import Callable
from typing import Any

import pytest

from deployments.errors import InvalidRequestError, NotFoundError
from deployments.service.conversations import ConversationsService, decode_metadata
from deployments.store_deployment import StoreDeployment
from deployments.translate.response_input import to_shown_item
from deployments.wire.conversations import CreateItems
from deployments.wire.parse import parse_model
from deployments.wire.responses_items import InputItem
from stores.errors import ConversationFullError, StoreDisabledError, UnknownItemError
from stores.memory import MemoryStore
from stores.types import Bounds, ConversationRecord, History, HistoryQuery, PageQuery, StoreBounds
from tests.support.serving import ROOMY, make_ids
from tests.support.spots import call, message, output

ALL = PageQuery(100, is_descending=False)
Call = Callable[[ConversationsService], Any]


class AskedStore(StoreDeployment):
    """`queries` are the histories that it was asked for."""

    def __init__(self, conversations: Bounds = ROOMY) -> None:
        bounds = StoreBounds(ROOMY, conversations)
        super().__init__(MemoryStore(bounds, lambda: 0.0), lambda: 0.0)
        self.queries: list[HistoryQuery] = []

    async def read_history(self, query: HistoryQuery) -> History:
        self.queries.append(query)
        return await super().read_history(query)


def make_service(store: StoreDeployment | None = None) -> ConversationsService:
    return ConversationsService(store or AskedStore(), lambda: 1_700_000_000.9, make_ids())


def parse(*items: dict[str, Any]) -> list[InputItem]:
    return parse_model(CreateItems, {"items": list(items)}).items


async def test_a_conversation_is_made_with_an_id_of_ours_in_whole_seconds() -> None:
    service = make_service()
    made = await service.create([], {"é": "✓"}, "me")
    assert made == ConversationRecord("conv_1", "me", 1_700_000_000, made.metadata)
    assert decode_metadata(made.metadata) == {"é": "✓"}
    assert await service.retrieve("conv_1", "me") == made


async def test_items_are_kept_in_their_order_each_under_an_id_of_its_own() -> None:
    service = make_service()
    await service.create(parse(message(), call()), {}, "me")
    added = await service.append("conv_1", parse(output(), message()), "me")
    page = await service.list_items("conv_1", ALL, "me")
    kinds = [to_shown_item(item)["type"] for item in page.items]
    assert kinds == ["message", "function_call", "function_call_output", "message"]
    assert page.items[2:] == added
    assert len({item.item_id for item in page.items}) == 4


async def test_the_store_is_asked_only_for_items_that_may_be_ours() -> None:
    store = AskedStore()
    service = make_service(store)
    await service.create(parse(message(), message(id=7), call(id="")), {}, "me")
    assert store.queries == []
    page = await service.list_items("conv_1", ALL, "me")
    own = page.items[0].item_id
    named = parse({"type": "item_reference", "id": own}, message(id="b"), message(id=own))
    await service.create(named, {}, "me")
    assert store.queries == [HistoryQuery("me", item_ids=(own, "b"))]


async def test_an_item_that_is_kept_is_the_same_in_another_conversation() -> None:
    service = make_service()
    for _ in range(2):
        await service.create(parse(message()), {}, "me")
    (item,) = (await service.list_items("conv_1", ALL, "me")).items
    assert await service.append("conv_2", parse({"id": item.item_id}), "me") == (item,)
    assert await service.retrieve_item("conv_2", item.item_id, "me") == item
    with pytest.raises(InvalidRequestError) as caught:
        await service.append("conv_2", parse(message(), {"id": item.item_id}), "you")
    assert (caught.value.param, caught.value.code) == ("items[1].id", "item_not_found")


async def test_an_item_that_is_taken_out_is_gone_from_that_conversation() -> None:
    service = make_service()
    made = await service.create(parse(message(), message()), {}, "me")
    first, second = (await service.list_items("conv_1", ALL, "me")).items
    assert await service.delete_item("conv_1", first.item_id, "me") == made
    assert (await service.list_items("conv_1", ALL, "me")).items == (second,)


CONVERSATION_CALLS: dict[str, Call] = {
    "retrieve": lambda it: it.retrieve("conv_1", "you"),
    "update": lambda it: it.update("conv_1", {}, "you"),
    "delete": lambda it: it.delete("conv_1", "you"),
    "append": lambda it: it.append("conv_1", parse(message()), "you"),
    "list": lambda it: it.list_items("conv_1", ALL, "you"),
}
ITEM_CALLS: dict[str, Call] = {
    "retrieve": lambda it: it.retrieve_item("conv_1", "msg_1", "you"),
    "delete": lambda it: it.delete_item("conv_1", "msg_1", "you"),
}


@pytest.mark.parametrize("is_anothers", [False, True])
@pytest.mark.parametrize(
    ("act", "param"),
    [
        *((act, "conversation_id") for act in CONVERSATION_CALLS.values()),
        *((act, "item_id") for act in ITEM_CALLS.values()),
    ],
)
async def test_what_another_owner_has_is_exactly_like_nothing(
    act: Call, param: str, is_anothers: bool
) -> None:
    service = make_service()
    if is_anothers:
        await service.create(parse(message()), {}, "me")
    with pytest.raises(NotFoundError) as caught:
        await act(service)
    assert (caught.value.param, caught.value.code) == (param, "not_found")
    assert "'conv_1'" in caught.value.message


@pytest.mark.parametrize("act", [*CONVERSATION_CALLS.values(), *ITEM_CALLS.values()])
async def test_a_store_without_conversations_says_so(act: Call) -> None:
    service = make_service(AskedStore(Bounds(0, 1000, 60)))
    for refused in (act, lambda it: it.create([], {}, "me")):
        with pytest.raises(StoreDisabledError, match="conversation_store_max_entries"):
            await refused(service)


async def test_the_stores_own_refusals_are_not_hidden() -> None:
    service = make_service(AskedStore(Bounds(10, 1500, 60)))
    await service.create([], {}, "me")
    with pytest.raises(ConversationFullError):
        await service.append("conv_1", parse(message(content="a" * 1500)), "me")
    with pytest.raises(InvalidRequestError) as caught:
        await service.update("conv_1", {"a": "b" * 1500}, "me")
    assert (caught.value.param, caught.value.code) == ("metadata", "conversation_full")
    with pytest.raises(UnknownItemError):
        await service.list_items("conv_1", PageQuery(1, "msg_1"), "me")
