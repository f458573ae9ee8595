"""The HTTP routes of Chat Completions and Completions: parse, call one use case, write."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from deployments.asgi import EventStreamReply, JsonReply
from deployments.bodies import Limits, read_body, to_ignored_header
from deployments.errors import ServiceError
from deployments.resource.events import StreamEvent
from deployments.service.completions import CompletionsService
from deployments.service.generation import Generation
from deployments.sse import encode_data, split_events
from deployments.translate.request import list_powerless
from deployments.wire import chat_request, completions_request
from deployments.wire.base import check_served
from deployments.wire.chat import REASONING, ChatChunkWriter, ChatStyle, to_chat_completion
from deployments.wire.chat_request import ChatCompletionRequest
from deployments.wire.completions import CompletionChunkWriter, CompletionStyle, to_completion
from deployments.wire.completions_request import CompletionRequest
from deployments.wire.errors import to_error_body
from deployments.wire.parse import parse_model

Write = Callable[[StreamEvent], bytes]


@dataclass(frozen=True, slots=True)
class ChatRoutes:
    """The routes over their use cases.

    `reasoning_alias` is a second key under which Chat Completions tells what the model thought.
    """

    completions: CompletionsService
    limits: Limits
    reasoning_alias: str | None = "reasoning"

    async def create_chat_completion(self, request: Request) -> Response:
        body, ignored = await read_body(request, self.limits)
        wanted = parse_chat_completion(body)
        generation = await self.completions.open_chat(wanted)
        ignored += chat_request.list_ignored(body)
        headers = to_ignored_header([*ignored, *list_powerless(wanted, generation.card)])
        style = self._to_style(wanted)
        if wanted.stream:
            return self._stream(generation, ChatChunkWriter(style).write, headers)
        response = await self.completions.finish(generation)
        return JsonReply(to_chat_completion(response, style), headers=headers)

    async def create_completion(self, request: Request) -> Response:
        body, ignored = await read_body(request, self.limits)
        wanted = parse_completion(body)
        generation = await self.completions.open_completion(wanted)
        headers = to_ignored_header([*ignored, *completions_request.list_ignored(body)])
        style = CompletionStyle(wanted.logprobs is not None, wanted.streams_usage)
        if wanted.stream:
            return self._stream(generation, CompletionChunkWriter(style).write, headers)
        response = await self.completions.finish(generation)
        return JsonReply(to_completion(response, style), headers=headers)

    def _to_style(self, wanted: ChatCompletionRequest) -> ChatStyle:
        names = (REASONING, self.reasoning_alias) if self.reasoning_alias else (REASONING,)
        return ChatStyle(wanted.num_logprobs is not None, wanted.streams_usage, names)

    def _stream(self, generation: Generation, write: Write, headers: dict[str, str]) -> Response:
        close = partial(self.completions.close, generation)
        return EventStreamReply(self._write_events(generation, write), headers, close)

    async def _write_events(
        self, generation: Generation, write: Write
    ) -> AsyncGenerator[bytes, None]:
        """The chunks; an error takes the place of those that do not come any more."""
        try:
            async with aclosing(self.completions.stream(generation)) as events:
                async for event in events:
                    for chunk in split_events(write(event)):
                        yield chunk
        except ServiceError as error:
            yield encode_data(to_error_body(error))


def parse_chat_completion(body: dict[str, Any]) -> ChatCompletionRequest:
    """The body of a request for the answer to a conversation.

    Raises:
        InvalidRequestError: with the place of its first fault. A wrong name is told first: with the
            right one at hand, nobody wonders what is missing.
    """
    check_served(body, chat_request.OTHER_NAMES, chat_request.NOT_SERVED)
    return parse_model(ChatCompletionRequest, body)


def parse_completion(body: dict[str, Any]) -> CompletionRequest:
    """The body of a request for the continuation of a prompt.

    Raises:
        InvalidRequestError: with the place of its first fault, as `parse_chat_completion`.
    """
    check_served(body, completions_request.OTHER_NAMES, completions_request.NOT_SERVED)
    return parse_model(CompletionRequest, body)
