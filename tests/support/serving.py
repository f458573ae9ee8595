"""The whole HTTP application in this process, over scripted engines and a store in memory."""

import itertools
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2
from openai import AsyncOpenAI
from starlette.types import ASGIApp

from deployments.authentication import EVERYONE, KeyRing
from deployments.bodies import Limits
from deployments.chat_routes import ChatRoutes
from deployments.conversation_routes import ConversationRoutes
from deployments.ingress import Ingress, make_app
from deployments.service.completions import CompletionsService
from deployments.service.conversations import ConversationsService
from deployments.service.generation import Generations
from deployments.service.models import ModelDirectory
from deployments.service.responses import ResponsesService
from deployments.store_deployment import StoreDeployment
from stores.memory import MemoryStore
from stores.types import Bounds, StoreBounds
from tests.support.exchange import AppTransport, HangUp
from tests.support.scripted import ScriptedEngine, Step

URL = "http://antiphon.test"
START_S = 1_700_000_000
MAX_BODY_BYTES = 1_000_000
ROOMY = Bounds(max_entries=100, max_bytes=10_000_000, ttl_s=3600)


@dataclass(frozen=True)
class Served:
    """An application that runs, and its clients: openai's own and one for bare HTTP."""

    app: ASGIApp
    store: StoreDeployment
    openai: AsyncOpenAI
    http: httpx2.AsyncClient


@asynccontextmanager
async def serving(
    *engines: ScriptedEngine,
    store: StoreDeployment | None = None,
    hang_up: HangUp = "tell",
    replica_wait_s: float = 60.0,
    heartbeat_s: float = 60.0,
    drops_other_tools: bool = False,
    reasoning_alias: str | None = "reasoning",
    keys: Sequence[str] = (),
    make_id: Callable[[str], str] | None = None,
) -> AsyncIterator[Served]:
    """The application over these engines; at its end every response that began must have ended.

    `keys` are the server's; the clients send the first of them. Applications over one store share
    `make_id`.
    """
    store = make_store() if store is None else store
    models = ModelDirectory({f"app-{number}": each for number, each in enumerate(engines)})
    clock, make_id = make_clock(), make_id or make_ids()
    generations = Generations(models, clock, make_id, replica_wait_s, heartbeat_s)
    limits = Limits(MAX_BODY_BYTES, drops_other_tools)
    chat = ChatRoutes(CompletionsService(generations), limits, reasoning_alias)
    conversations = ConversationRoutes(ConversationsService(store, clock, make_id), limits)
    ingress = Ingress(ResponsesService(generations, store), chat, conversations, models, limits)
    ring = KeyRing.of(keys)
    app = make_app(ingress, ring, is_behind_proxy=False)
    key = keys[0] if keys else "none"
    headers = {"authorization": f"Bearer {key}"} if keys else {}
    transport = AppTransport(app, hang_up)
    async with httpx2.AsyncClient(transport=transport, base_url=URL, headers=headers) as http:
        client = AsyncOpenAI(base_url=f"{URL}/v1", api_key=key, http_client=http, max_retries=0)
        yield Served(app, store, client, http)
    for engine in engines:
        for owner in ring.digests or (EVERYONE,):
            await check_all_ended(engine, store, owner)


async def check_all_ended(engine: ScriptedEngine, store: StoreDeployment, owner: str) -> None:
    begun = [request.generation_id for request in engine.requests]
    assert sorted(engine.closed) == sorted(begun)
    for response_id in begun:
        if await store.watch(response_id, owner) is not None:
            assert await store.wait_finished(response_id, owner, 1.0) is not None


def playing(*steps: Step) -> ScriptedEngine:
    """An engine that plays one script for every request."""
    return ScriptedEngine(lambda _: steps)


def make_store(
    responses: Bounds = ROOMY,
    conversations: Bounds = ROOMY,
    clock: Callable[[], float] = time.monotonic,
) -> StoreDeployment:
    return StoreDeployment(MemoryStore(StoreBounds(responses, conversations), clock), clock)


def make_clock() -> Callable[[], float]:
    """A clock that goes on by a second whenever it is read."""
    return itertools.count(START_S).__next__


def make_ids() -> Callable[[str], str]:
    """`resp_1`, `msg_1`, `msg_2`, …"""
    numbers = defaultdict[str, Iterator[int]](lambda: itertools.count(1))
    return lambda prefix: f"{prefix}_{next(numbers[prefix])}"
