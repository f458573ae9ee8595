"""The HTTP routes of the OpenAI surface: parse, call one use case, write."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deployments.asgi import (
    ERROR_HANDLERS,
    CatchAll,
    EventStreamReply,
    JsonReply,
    RefuseUpgrades,
    RequestId,
    RequireKey,
)
from deployments.authentication import KeyRing
from deployments.bodies import Limits, read_body, to_ignored_header
from deployments.chat_routes import ChatRoutes
from deployments.conversation_routes import ConversationRoutes
from deployments.errors import InvalidRequestError
from deployments.service.models import ModelDirectory
from deployments.service.responses import ResponsesService, RunningResponse
from deployments.sse import split_events
from deployments.translate.request import list_powerless
from deployments.translate.response_input import to_shown_item
from deployments.wire.base import check_served
from deployments.wire.metrics import CONTENT_TYPE, ModelMetrics, write_metrics
from deployments.wire.models import to_model, to_model_list
from deployments.wire.pages import parse_page, to_item_list
from deployments.wire.parse import parse_model
from deployments.wire.responses import ResponseEventWriter, to_body
from deployments.wire.responses_request import (
    NOT_SERVED,
    OTHER_NAMES,
    CreateResponse,
    list_ignored,
)

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Ingress:
    """The routes over their use cases."""

    responses: ResponsesService
    chat: ChatRoutes
    conversations: ConversationRoutes
    models: ModelDirectory
    limits: Limits

    async def create_response(self, request: Request) -> Response:
        body, ignored = await read_body(request, self.limits)
        wanted = parse_create_response(body)
        running = await self.responses.open(wanted, request.state.owner)
        ignored += [*list_ignored(body), *list_powerless(wanted, running.card)]
        headers = to_ignored_header(ignored)
        if wanted.stream:
            close = partial(self.responses.close, running)
            return EventStreamReply(self._write_events(running), headers, close)
        return JsonReply(to_body(await self.responses.finish(running)), headers=headers)

    async def count_input(self, request: Request) -> Response:
        body, ignored = await read_body(request, self.limits)
        wanted = parse_create_response(body)
        num_tokens, card = await self.responses.count_input(wanted, request.state.owner)
        ignored += [*list_ignored(body), *list_powerless(wanted, card)]
        reply = {"object": "response.input_tokens", "input_tokens": num_tokens}
        return JsonReply(reply, headers=to_ignored_header(ignored))

    async def retrieve_response(self, request: Request) -> Response:
        check_not_streamed(request.query_params)
        response_id = request.path_params["response_id"]
        return JsonReply(to_body(await self.responses.retrieve(response_id, request.state.owner)))

    async def delete_response(self, request: Request) -> Response:
        response_id = request.path_params["response_id"]
        await self.responses.delete(response_id, request.state.owner)
        return JsonReply({"id": response_id, "object": "response.deleted", "deleted": True})

    async def cancel_response(self, request: Request) -> Response:
        response_id = request.path_params["response_id"]
        return JsonReply(to_body(await self.responses.cancel(response_id, request.state.owner)))

    async def list_input_items(self, request: Request) -> Response:
        query = parse_page(request.query_params.multi_items())
        response_id = request.path_params["response_id"]
        page = await self.responses.list_input_items(response_id, request.state.owner, query)
        shown = [to_shown_item(record) for record in page.items]
        return JsonReply(to_item_list(shown, page.has_more))

    async def list_models(self, _: Request) -> Response:
        return JsonReply(to_model_list(await self.models.cards()))

    async def retrieve_model(self, request: Request) -> Response:
        route = await self.models.find(request.path_params["model"])
        return JsonReply(to_model(route.card))

    async def health(self, _: Request) -> Response:
        """200 only while every model has a replica and every engine's loop lives."""
        models = await self.models.health()
        is_well = all(model.is_alive for model in models)
        body = {
            "status": "ok" if is_well else "unavailable",
            "models": {
                model.application: {
                    "replicas": len(model.replicas),
                    "alive": sum(replica.is_alive for replica in model.replicas),
                }
                for model in models
            },
        }
        return JsonReply(body, status_code=200 if is_well else 503)

    async def metrics(self, _: Request) -> Response:
        page = write_metrics(
            ModelMetrics(model.application, model.name, model.is_alive, model.replicas)
            for model in await self.models.health()
        )
        return Response(page, headers={"content-type": CONTENT_TYPE})

    async def _write_events(self, running: RunningResponse) -> AsyncGenerator[bytes, None]:
        writer = ResponseEventWriter(running.echo)
        async with aclosing(self.responses.stream(running)) as events:
            async for event in events:
                for written in split_events(writer.write(event)):
                    yield written


def parse_create_response(body: dict[str, Any]) -> CreateResponse:
    """The body of a request for a response.

    Raises:
        InvalidRequestError: with the place of its first fault.
    """
    check_served(body, OTHER_NAMES, NOT_SERVED)
    return parse_model(CreateResponse, body)


def check_not_streamed(query: Mapping[str, str]) -> None:
    """A response that was not made in the background cannot be streamed again.

    Raises:
        InvalidRequestError: where that is asked.
    """
    is_asked = query.get("stream", "false").lower() not in ("false", "0", "")
    if is_asked or "starting_after" in query:
        raise InvalidRequestError(
            "Only a response made in the background can be streamed again.",
            "stream" if is_asked else "starting_after",
            "unsupported_value",
        )


async def refuse_route(_: Request) -> Response:
    """A route of OpenAI's that is not here.

    Raises:
        HTTPException: always.
    """
    raise HTTPException(404)


def by_method(endpoints: dict[str, Endpoint]) -> Endpoint:
    """One endpoint for all methods of a path, so that a 405 names them all."""

    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await endpoints[method](request)

    return endpoint


def make_app(ingress: Ingress, keys: KeyRing, is_behind_proxy: bool) -> Starlette:
    """The ASGI application: every route also without `/v1`, and only `/health` without a key.

    `is_behind_proxy` says that Serve's proxy adds the request's id to every reply.
    """
    served: dict[str, dict[str, Endpoint]] = {
        "/responses": {"POST": ingress.create_response},
        "/responses/input_tokens": {"POST": ingress.count_input},
        "/responses/compact": {"POST": refuse_route},  # or it would be a response's id
        "/responses/{response_id}": {
            "GET": ingress.retrieve_response,
            "DELETE": ingress.delete_response,
        },
        "/responses/{response_id}/cancel": {"POST": ingress.cancel_response},
        "/responses/{response_id}/input_items": {"GET": ingress.list_input_items},
        "/conversations": {"POST": ingress.conversations.create},
        "/conversations/{conversation_id}": {
            "GET": ingress.conversations.retrieve,
            "POST": ingress.conversations.update,
            "DELETE": ingress.conversations.delete,
        },
        "/conversations/{conversation_id}/items": {
            "GET": ingress.conversations.list_items,
            "POST": ingress.conversations.create_items,
        },
        "/conversations/{conversation_id}/items/{item_id}": {
            "GET": ingress.conversations.retrieve_item,
            "DELETE": ingress.conversations.delete_item,
        },
        "/chat/completions": {"POST": ingress.chat.create_chat_completion},
        "/completions": {"POST": ingress.chat.create_completion},
        "/models": {"GET": ingress.list_models},
        "/models/{model:path}": {"GET": ingress.retrieve_model},
    }
    routes = [
        Route(prefix + path, by_method(endpoints), methods=list(endpoints))
        for prefix in ("/v1", "")
        for path, endpoints in served.items()
    ]
    health = Route("/health", ingress.health)
    app = Starlette(
        routes=[*routes, health, Route("/metrics", ingress.metrics)],
        middleware=[
            Middleware(RequestId, writes_header=not is_behind_proxy),
            Middleware(CatchAll),
            Middleware(RequireKey, keys=keys, open_route=health),
            Middleware(RefuseUpgrades),
        ],
        exception_handlers=ERROR_HANDLERS,
    )
    app.router.redirect_slashes = False  # a redirect of a POST loses its body in many clients
    return app
