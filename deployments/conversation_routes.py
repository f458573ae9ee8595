"""The HTTP routes of the Conversations API: parse, call one use case, write."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from deployments.asgi import JsonReply
from deployments.bodies import Limits, read_body
from deployments.service.conversations import ConversationsService, decode_metadata
from deployments.translate.response_input import to_shown_item
from deployments.wire.conversations import (
    CreateConversation,
    CreateItems,
    UpdateConversation,
    to_conversation,
    to_deleted_conversation,
)
from deployments.wire.pages import parse_page, to_item_list
from deployments.wire.parse import parse_model
from stores.types import ConversationRecord


@dataclass(frozen=True, slots=True)
class ConversationRoutes:
    """The routes over their use cases."""

    conversations: ConversationsService
    limits: Limits

    async def create(self, request: Request) -> Response:
        body, _ = await read_body(request, self.limits)
        wanted = parse_model(CreateConversation, body)
        owner = request.state.owner
        record = await self.conversations.create(wanted.items or [], wanted.metadata or {}, owner)
        return reply(record)

    async def retrieve(self, request: Request) -> Response:
        conversation_id = request.path_params["conversation_id"]
        return reply(await self.conversations.retrieve(conversation_id, request.state.owner))

    async def update(self, request: Request) -> Response:
        body, _ = await read_body(request, self.limits)
        metadata = parse_model(UpdateConversation, body).metadata
        conversation_id = request.path_params["conversation_id"]
        owner = request.state.owner
        return reply(await self.conversations.update(conversation_id, metadata, owner))

    async def delete(self, request: Request) -> Response:
        conversation_id = request.path_params["conversation_id"]
        await self.conversations.delete(conversation_id, request.state.owner)
        return JsonReply(to_deleted_conversation(conversation_id))

    async def create_items(self, request: Request) -> Response:
        body, _ = await read_body(request, self.limits)
        items = parse_model(CreateItems, body).items
        conversation_id = request.path_params["conversation_id"]
        records = await self.conversations.append(conversation_id, items, request.state.owner)
        return JsonReply(to_item_list([to_shown_item(record) for record in records], False))

    async def list_items(self, request: Request) -> Response:
        query = parse_page(request.query_params.multi_items())
        conversation_id = request.path_params["conversation_id"]
        page = await self.conversations.list_items(conversation_id, query, request.state.owner)
        shown = [to_shown_item(record) for record in page.items]
        return JsonReply(to_item_list(shown, page.has_more))

    async def retrieve_item(self, request: Request) -> Response:
        conversation_id, item_id = to_place(request)
        owner = request.state.owner
        item = await self.conversations.retrieve_item(conversation_id, item_id, owner)
        return JsonReply(to_shown_item(item))

    async def delete_item(self, request: Request) -> Response:
        conversation_id, item_id = to_place(request)
        owner = request.state.owner
        return reply(await self.conversations.delete_item(conversation_id, item_id, owner))


def to_place(request: Request) -> tuple[str, str]:
    """The ids of a conversation and of an item of it."""
    return request.path_params["conversation_id"], request.path_params["item_id"]


def reply(record: ConversationRecord) -> Response:
    metadata = decode_metadata(record.metadata)
    return JsonReply(to_conversation(record.conversation_id, record.created_at, metadata))
