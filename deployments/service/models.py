"""Which models are served, as the engines themselves say."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from deployments.errors import NotFoundError, ServiceError, UnavailableError
from deployments.router import EngineClient, Route, Router
from engine.errors import EngineError
from engine.types import EngineStats, ModelCard

logger = logging.getLogger(__name__)

FRESH_S = 5.0
ANSWER_S = 2.0  # how long an engine may take to show its card or its state


@dataclass(frozen=True, slots=True)
class ModelHealth:
    """State of one model's replicas; an empty list means that none answered.

    `name` is the one on the model's card, empty while it has never shown any.
    """

    application: str
    replicas: list[EngineStats]
    name: str = ""

    @property
    def is_alive(self) -> bool:
        return bool(self.replicas) and all(replica.is_alive for replica in self.replicas)


class ModelDirectory:
    """Learns names and aliases from the engines, so that no other place has to repeat them.

    A model that has never answered is unknown by name; until all have, an unknown name is
    "unavailable" rather than "not found". A model that has answered keeps its names while its
    replicas are away. What is known is asked again, beside the requests and never in their way,
    when it is `FRESH_S` old: a model may have been deployed anew with other names or defaults.
    """

    def __init__(self, clients: Mapping[str, EngineClient]) -> None:
        """`clients` by the name of the Serve application that runs the model."""
        self._clients = clients
        self._routes: dict[str, Route] = {}
        self._router = Router(())
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshed_s = -FRESH_S

    async def find(self, name: str) -> Route:
        """The model called so.

        Raises:
            NotFoundError: where there is none.
            UnavailableError: where a model that has not answered may be the one.
        """
        route = self._router.find(name)
        if route is not None:
            self._refresh_if_old()
            return route
        await self.refresh()
        route = self._router.find(name)
        if route is not None:
            return route
        if len(self._routes) < len(self._clients):
            raise UnavailableError(
                "Not all models are loaded yet; this name may belong to one of them.",
                "model",
                "model_loading",
            )
        raise NotFoundError(f"The model '{name}' does not exist here.", "model", "model_not_found")

    async def cards(self) -> list[ModelCard]:
        """The cards of all models that have answered, in the order of the settings."""
        await self.refresh()
        return self._router.cards()

    async def refresh(self) -> None:
        """Ask every engine for its card. Callers that come meanwhile wait for the same answers."""
        await asyncio.shield(self._start_refresh())

    def _refresh_if_old(self) -> None:
        if asyncio.get_running_loop().time() - self._refreshed_s > FRESH_S:
            self._start_refresh()

    def _start_refresh(self) -> "asyncio.Task[None]":
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh())
        return self._refreshing

    async def _refresh(self) -> None:
        self._refreshed_s = asyncio.get_running_loop().time()
        answers = await asyncio.gather(*(self._ask(name) for name in self._clients))
        known = {
            name: route or self._routes.get(name)
            for name, route in zip(self._clients, answers, strict=True)
        }
        self._routes = {name: route for name, route in known.items() if route is not None}
        self._router = Router(self._routes.values())

    async def health(self) -> list[ModelHealth]:
        """The state of every model, after `ANSWER_S` at most: who has not answered is away."""
        checks = asyncio.gather(*(self._check(application) for application in self._clients))
        _, replicas = await asyncio.gather(self._learn_names(), checks)
        return [
            ModelHealth(application, each, self._find_name(application))
            for application, each in zip(self._clients, replicas, strict=True)
        ]

    async def _learn_names(self) -> None:
        """Ask for the names where one is missing; those that are merely old do for now."""
        if len(self._routes) < len(self._clients):
            await self.refresh()
        else:
            self._refresh_if_old()

    def _find_name(self, application: str) -> str:
        route = self._routes.get(application)
        return route.card.name if route else ""

    async def _ask(self, application: str) -> Route | None:
        client = self._clients[application]
        try:
            async with asyncio.timeout(ANSWER_S):
                return Route(await client.card(), client)
        except (TimeoutError, EngineError, ServiceError) as error:
            logger.info("model application %s shows no card: %r", application, error)
            return None

    async def _check(self, application: str) -> list[EngineStats]:
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._clients[application].stats()
        except (TimeoutError, EngineError, ServiceError) as error:
            logger.info("model application %s shows no state: %r", application, error)
            return []
