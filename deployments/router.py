"""Model name → engine client: pure look-up over the cards that the engines have shown."""

import logging
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from typing import Protocol

from engine.types import EngineEvent, EngineStats, GenerateRequest, ModelCard

logger = logging.getLogger(__name__)


class EngineClient(Protocol):
    """What the use cases need of one model's engine, wherever it runs.

    All methods raise the engine's errors, and `UnavailableError` where no replica answers.
    """

    async def card(self) -> ModelCard: ...

    async def stats(self) -> list[EngineStats]:
        """One a running replica."""
        ...

    def generate(self, request: GenerateRequest) -> AsyncGenerator[tuple[EngineEvent, ...], None]:
        """As `engine.types.Engine.generate`."""
        ...

    async def count_tokens(self, request: GenerateRequest) -> int:
        """As `engine.types.Engine.count_tokens`."""
        ...

    async def abort(self, generation_id: str) -> bool:
        """Stop a generation on whichever replica runs it; False where none does."""
        ...


@dataclass(frozen=True, slots=True)
class Route:
    """A model that answers to a name."""

    card: ModelCard
    client: EngineClient


class Router:
    """Finds a model by its name or one of its aliases."""

    def __init__(self, routes: Iterable[Route]) -> None:
        """Where two models claim one name, the earlier has it: a name beats nothing but silence."""
        self._routes = list(routes)
        self._by_name: dict[str, Route] = {}
        for route in self._routes:
            for name in (route.card.name, *route.card.aliases):
                if name in self._by_name:
                    logger.error("two models are called %r, the later one is not reachable", name)
                self._by_name.setdefault(name, route)

    def find(self, name: str) -> Route | None:
        return self._by_name.get(name)

    def cards(self) -> list[ModelCard]:
        return [route.card for route in self._routes]
