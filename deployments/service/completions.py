"""The use cases of Chat Completions and Completions: open, stream, finish. Nothing is kept."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from deployments.errors import UnavailableError
from deployments.resource.events import ResponseEnded, StreamEvent
from deployments.resource.response import Response
from deployments.service.generation import Generation, Generations, to_error
from deployments.translate.chat import to_chat_generation
from deployments.translate.completions import to_completion_generation
from deployments.wire.chat_request import ChatCompletionRequest
from deployments.wire.completions_request import CompletionRequest


@dataclass(frozen=True, slots=True)
class CompletionsService:
    """One method a use case. Whoever opens a generation closes it."""

    generations: Generations

    async def open_chat(self, request: ChatCompletionRequest) -> Generation:
        """Start the answer to a conversation: what can be refused is refused here.

        Raises:
            ServiceError: where it cannot start.
        """
        make_request = partial(to_chat_generation, request)
        return await self.generations.start(request.model, "chatcmpl", make_request, "messages")

    async def open_completion(self, request: CompletionRequest) -> Generation:
        """Start the continuation of a prompt: what can be refused is refused here.

        Raises:
            ServiceError: where it cannot start.
        """
        make_request = partial(to_completion_generation, request)
        return await self.generations.start(request.model, "cmpl", make_request, "prompt")

    async def finish(self, generation: Generation) -> Response:
        """Run a generation to its end.

        Raises:
            ServiceError: where it fails.
        """
        async with aclosing(self.stream(generation)) as events:
            async for event in events:
                if isinstance(event, ResponseEnded):
                    return event.response
        raise AssertionError("a stream ends with its terminal event or an error")

    async def stream(self, generation: Generation) -> AsyncGenerator[StreamEvent, None]:
        """The events of a response that ends well.

        Closing the generator, or cancelling the task that reads it, aborts the generation.

        Raises:
            ServiceError: in place of the terminal event, where it fails or somebody stops it.
        """
        try:
            for event in generation.machine.start():
                yield event
            async with aclosing(self.generations.run(generation)) as events:
                async for event in events:
                    if isinstance(event, ResponseEnded):
                        check_ended_well(event.response)
                    yield event
        finally:
            await self.close(generation)

    async def close(self, generation: Generation) -> None:
        """Let go of a generation, whether or not it was ever read; again, it does nothing."""
        await generation.rest.close()


def check_ended_well(response: Response) -> None:
    """Refuse to call an answer whole that is not: these routes have no word for it.

    Raises:
        ServiceError: for one that failed, or that was stopped from the server's side.
    """
    if response.failure is not None:
        raise to_error(response.failure)
    if response.status == "cancelled":
        raise UnavailableError("The server stopped the answer before its end; try again.")
