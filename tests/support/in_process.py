"""A real engine of this process behind its clients' face: the whole app over a model."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field

from engine.engine import ThreadedEngine
from engine.types import EngineEvent, EngineStats, GenerateRequest, ModelCard


@dataclass
class InProcessEngine:
    """`deployments.router.EngineClient` over an engine, without Ray between.

    It keeps the `requests` that came to `generate`, and in `closed` the ids of those that ended.
    """

    engine: ThreadedEngine
    requests: list[GenerateRequest] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    async def card(self) -> ModelCard:
        return self.engine.card()

    async def stats(self) -> list[EngineStats]:
        return [self.engine.stats()]

    async def generate(
        self, request: GenerateRequest
    ) -> AsyncGenerator[tuple[EngineEvent, ...], None]:
        self.requests.append(request)
        try:
            async with aclosing(self.engine.generate(request)) as batches:
                async for batch in batches:
                    yield batch
        finally:
            self.closed.append(request.generation_id)

    async def count_tokens(self, request: GenerateRequest) -> int:
        return await self.engine.count_tokens(request)

    async def abort(self, generation_id: str) -> bool:
        return self.engine.abort(generation_id)
