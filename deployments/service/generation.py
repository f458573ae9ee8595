"""One generation, whatever protocol asked for it: a model's name in, events of a response out."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass

from deployments.errors import (
    INPUT,
    InternalError,
    ServiceError,
    UnavailableError,
    to_service_error,
)
from deployments.resource.events import StreamEvent
from deployments.resource.response import ResponseFailure
from deployments.service.batch_reader import Batch, BatchReader
from deployments.service.models import ModelDirectory
from deployments.translate.stream import ResponseStream
from engine.errors import EngineError
from engine.types import GenerateRequest, ModelCard

logger = logging.getLogger(__name__)

MakeRequest = Callable[[ModelCard, str], GenerateRequest]
"""From the card of the model that was found and the generation's id; it raises ServiceErrors."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One that has a place in an engine: nothing can refuse it any more.

    Whoever starts one closes `rest`, however it ends.
    """

    card: ModelCard
    machine: ResponseStream
    first: Batch
    rest: BatchReader


@dataclass(frozen=True, slots=True)
class Generations:
    """Starts and runs generations. `clock` gives seconds since the Unix epoch.

    `replica_wait_s` bounds the wait for a model that is starting. After `heartbeat_s` seconds in
    which the engine says nothing, `run` gives a sign of life.
    """

    models: ModelDirectory
    clock: Callable[[], float]
    make_id: Callable[[str], str]
    replica_wait_s: float
    heartbeat_s: float

    async def start(
        self, model: str, prefix: str, make_request: MakeRequest, input_name: str = INPUT
    ) -> Generation:
        """Find the model and get a place in its engine; `prefix` is that of the answer's id.

        `input_name` is the route's for what is to be continued.

        Raises:
            ServiceError: where it cannot start.
        """
        route = await self.models.find(model)
        response_id = self.make_id(prefix)
        request = make_request(route.card, response_id)
        rest = BatchReader(route.client.generate(request))
        first = await self._first(rest, input_name)
        machine = ResponseStream(
            response_id, model, self.now(), self.make_id, request.max_tool_calls
        )
        return Generation(route.card, machine, first, rest)

    async def count_tokens(self, model: str, make_request: MakeRequest) -> tuple[int, ModelCard]:
        """The tokens of a prompt, as the model would count them, and the model's card.

        Raises:
            ServiceError: where they cannot be counted.
        """
        route = await self.models.find(model)
        request = make_request(route.card, self.make_id("count"))
        try:
            async with asyncio.timeout(self.replica_wait_s):
                return await route.client.count_tokens(request), route.card
        except TimeoutError:
            raise UnavailableError("The model is not ready; try again soon.") from None

    async def run(self, generation: Generation) -> AsyncGenerator[StreamEvent, None]:
        """Engine events through the state machine, to its end: any error is a failed response.

        What the machine says at its start is not among them. The engine is free before the last
        of them are given out.
        """
        machine = generation.machine
        batch: Batch | None = generation.first
        try:
            while True:
                for event in self._feed(machine, batch):
                    if machine.has_ended:
                        await generation.rest.close()
                    yield event
                if machine.has_ended:
                    return
                batch = await generation.rest.next(self.heartbeat_s)
        except Exception as error:
            logger.exception("response %s failed", machine.response().response_id)
            await generation.rest.close()
            told = to_service_error(error)
            is_temporary = isinstance(told, UnavailableError)
            for event in machine.fail(told.message, is_temporary, told.code or "server_error"):
                yield event

    def _feed(self, machine: ResponseStream, batch: Batch | None) -> Iterator[StreamEvent]:
        """What a batch makes of the response, None being a silence.

        Event by event: where one of them is at fault, what came of those before it is told.
        """
        if batch is None:
            yield from machine.heartbeat()
            return
        for engine_event in batch:
            if machine.has_ended:  # it may end before the engine does
                return
            yield from machine.feed(engine_event, self.now())

    async def _first(self, batches: BatchReader, input_name: str) -> Batch:
        """The first events of a generation, or the reason why there are none."""
        try:
            first = await batches.next(self.replica_wait_s)
        except EngineError as error:
            raise to_service_error(error, input_name) from error
        except asyncio.CancelledError:
            await batches.close()
            raise
        if first is None:
            await batches.close()
            raise UnavailableError("The model is not ready; try again soon.")
        return first

    def now(self) -> int:
        return int(self.clock())


def to_error(failure: ResponseFailure) -> ServiceError:
    """What a caller who does not stream is told of a response that failed."""
    if failure.is_temporary:
        return UnavailableError(failure.message)
    return InternalError(failure.message, None, failure.code)
