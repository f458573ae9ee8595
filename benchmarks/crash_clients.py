"""Clients that write to a server while it is killed, and that look afterwards what it has kept."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2
import openai
from openai.types.responses import (
    ResponseCompletedEvent,
    ResponseCreatedEvent,
    ResponseFailedEvent,
    ResponseIncompleteEvent,
)

from benchmarks.crash_ledger import TAG, Attempt, Json, Ledger, find_difference, find_wrong_turn

REQUEST_S: Final = 60.0
RETRY_S: Final = 0.1
MAX_TURNS: Final = 12  # then a chain or a conversation begins anew
PAGE: Final = 100  # the most that a page may have
CHECKERS: Final = 4


def make_client(url: str, key: str) -> openai.AsyncOpenAI:
    """openai's client, which tries nothing twice: every failure is told."""
    http = httpx2.AsyncClient(timeout=REQUEST_S, trust_env=False)
    return openai.AsyncOpenAI(base_url=url, api_key=key, http_client=http, max_retries=0)


@dataclass(slots=True, eq=False)
class Conversation:
    """A conversation that a client made, and the attempts in it."""

    conversation_id: str
    attempts: list[Attempt] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Sender:
    """Sends requests for responses and notes in the ledger how they end."""

    client: openai.AsyncOpenAI
    model: str
    ledger: Ledger
    max_tokens: int = 6

    async def send(self, attempt: Attempt, is_streamed: bool = False, **body: Any) -> None:
        body |= {
            "model": self.model,
            "input": attempt.text,
            "max_output_tokens": self.max_tokens,
            "metadata": {TAG: attempt.tag},
        }
        try:
            if is_streamed:
                await self._read_stream(attempt, body)
            else:
                reply = await self.client.responses.create(stream=False, **body)
                acknowledge(attempt, reply.to_dict())
        except openai.APIStatusError as error:
            attempt.end = "refused"
            self.ledger.errors[f"{error.status_code} {error.code}"] += 1
        except (openai.APIError, httpx2.HTTPError) as error:
            is_unsent = isinstance(error.__cause__, httpx2.ConnectError)
            attempt.end = "unsent" if is_unsent else "cut"
            self.ledger.errors[type(error.__cause__ or error).__name__] += 1
        if attempt.end == "open":
            attempt.end = "cut"
            self.ledger.errors["a stream without an end"] += 1

    async def _read_stream(self, attempt: Attempt, body: dict[str, Any]) -> None:
        async with await self.client.responses.create(stream=True, **body) as stream:
            async for event in stream:
                match event:
                    case ResponseCreatedEvent():
                        attempt.response_id = event.response.id
                    case ResponseCompletedEvent() | ResponseIncompleteEvent():
                        acknowledge(attempt, event.response.to_dict())
                    case ResponseFailedEvent():
                        attempt.end = "failed"
                        self.ledger.errors["a stream that failed"] += 1


def acknowledge(attempt: Attempt, reply: Json) -> None:
    attempt.end, attempt.reply, attempt.response_id = "acknowledged", reply, reply["id"]


class Writer:
    """One client: single responses, chains from its last acknowledged one, conversations."""

    def __init__(self, sender: Sender, rng: random.Random, pause_s: float = 0.0) -> None:
        self.conversations: list[Conversation] = []
        self._sender = sender
        self._rng = rng
        self._pause_s = pause_s
        self._chain: list[Attempt] = []

    async def write_until(self, stop: asyncio.Event) -> None:
        """Send one request after another; the last comes to its end after the stop."""
        while not stop.is_set():
            write = self._rng.choice([self._write_alone, self._write_chain, self._write_turn])
            attempt = await write(self._rng.random() < 0.5)
            is_well = attempt is not None and attempt.end == "acknowledged"
            await asyncio.sleep(self._pause_s if is_well else RETRY_S)

    async def _write_alone(self, is_streamed: bool) -> Attempt:
        attempt = self._sender.ledger.begin()
        await self._sender.send(attempt, is_streamed)
        return attempt

    async def _write_chain(self, is_streamed: bool) -> Attempt:
        if len(self._chain) >= MAX_TURNS:
            self._chain = []
        attempt = self._sender.ledger.begin(self._chain)
        parent = {"previous_response_id": self._chain[-1].response_id} if self._chain else {}
        await self._sender.send(attempt, is_streamed, **parent)
        if attempt.end == "acknowledged":
            self._chain.append(attempt)
        return attempt

    async def _write_turn(self, is_streamed: bool) -> Attempt | None:
        conversation = await self._find_conversation()
        if conversation is None:
            return None
        attempt = self._sender.ledger.begin(conversation.attempts)
        conversation.attempts.append(attempt)
        await self._sender.send(attempt, is_streamed, conversation=conversation.conversation_id)
        return attempt

    async def _find_conversation(self) -> Conversation | None:
        """The client's own one; None where a new one is due and cannot be made now."""
        if not self.conversations or len(self.conversations[-1].attempts) >= MAX_TURNS:
            try:
                made = await self._sender.client.conversations.create()
            except openai.APIError as error:
                self._sender.ledger.errors[f"no conversation: {type(error).__name__}"] += 1
                return None
            self.conversations.append(Conversation(made.id))
        return self.conversations[-1]


@dataclass(frozen=True, slots=True)
class Checker:
    """Reads what a server has kept. Its methods return what is wrong, a line each."""

    client: openai.AsyncOpenAI

    async def check_attempts(self, attempts: Iterable[Attempt]) -> list[str]:
        """Each response that was acknowledged must be there as it was told."""
        return await check_all(self._check_attempt, attempts)

    async def check_conversations(self, conversations: Iterable[Conversation]) -> list[str]:
        """Each must have the turns of its acknowledged responses, and of others at most whole."""
        return await check_all(self._check_conversation, conversations)

    async def check_ended(self, attempts: Iterable[Attempt]) -> list[str]:
        """Each response that a client knows to have begun must be there, and have ended."""
        return await check_all(self._check_ended, attempts)

    async def _check_attempt(self, attempt: Attempt) -> str | None:
        assert attempt.response_id is not None
        kept = await self.client.responses.retrieve(attempt.response_id)
        if difference := find_difference(attempt, kept.to_dict()):
            return difference
        pages = self.client.responses.input_items
        items = [
            item.to_dict()
            async for item in pages.list(attempt.response_id, order="asc", limit=PAGE)
        ]
        return find_wrong_turn(items, attempt.before, attempt)

    async def _check_conversation(self, conversation: Conversation) -> str | None:
        pages = self.client.conversations.items
        items = [
            item.to_dict()
            async for item in pages.list(conversation.conversation_id, order="asc", limit=PAGE)
        ]
        return find_wrong_turn(items, conversation.attempts)

    async def _check_ended(self, attempt: Attempt) -> str | None:
        assert attempt.response_id is not None
        kept = await self.client.responses.retrieve(attempt.response_id)
        return "it is in progress for ever" if kept.status == "in_progress" else None


async def check_all(
    check: Callable[[Any], Awaitable[str | None]], what: Iterable[Any]
) -> list[str]:
    """The faults of all of them; one that is not there is a fault."""
    left = iter(what)
    faults: list[str] = []

    async def work() -> None:
        for each in left:
            try:
                fault = await check(each)
            except openai.APIError as error:
                fault = f"{type(error).__name__}: {error}"
            if fault is not None:
                name = getattr(each, "response_id", None) or getattr(each, "conversation_id", None)
                faults.append(f"{name}: {fault}")

    await asyncio.gather(*(work() for _ in range(CHECKERS)))
    return faults


async def wait_answered(sender: Sender) -> Attempt:
    """Ask for a response again and again until one is acknowledged."""
    while True:
        attempt = sender.ledger.begin()
        await sender.send(attempt)
        if attempt.end == "acknowledged":
            return attempt
        await asyncio.sleep(RETRY_S)


class Crowd:
    """Writers that write at the same time, for as long as a block runs."""

    def __init__(self, writers: Sequence[Writer]) -> None:
        self.writers = writers
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> None:
        self._stop.clear()
        self._tasks = [asyncio.create_task(each.write_until(self._stop)) for each in self.writers]

    async def __aexit__(self, *_: object) -> None:
        """Let what is on its way come to its end."""
        self._stop.set()
        await asyncio.gather(*self._tasks)

    @property
    def conversations(self) -> list[Conversation]:
        return [each for writer in self.writers for each in writer.conversations]
