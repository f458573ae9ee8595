"""Processes that are killed while clients write: all that a client was told is there afterwards."""

import asyncio
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.crash_clients import Checker, Crowd, Sender, Writer, make_client, wait_answered
from benchmarks.crash_ledger import Ledger
from benchmarks.crashes import Run, Target, kill_process, to_report, wait_pids
from tests.support.server import Server

MODEL = "long"  # the smallest model of the server
CLIENTS, PAUSE_S = 4, 0.02  # the server keeps 1024 responses
STORE, INGRESS = "ServeReplica:store:", "ServeReplica:api:"
PATIENCE_S = 60.0


class Writing:
    """Clients of a server, what they were told, and what is wrong with what was kept of it."""

    def __init__(self, server: Server) -> None:
        self.ledger = Ledger()
        self.client = make_client(f"{server.url}/v1", server.key)
        self.sender = Sender(self.client, MODEL, self.ledger)
        writers = [Writer(self.sender, random.Random(each), PAUSE_S) for each in range(CLIENTS)]
        self.crowd = Crowd(writers)

    async def go_on(self, count: int) -> None:
        """Let the others write until so many more requests are answered here."""
        for _ in range(count):
            await wait_answered(self.sender)

    async def find_faults(self) -> list[str]:
        checker = Checker(self.client)
        return [
            *await checker.check_attempts(self.ledger.acknowledged),
            *await checker.check_conversations(self.crowd.conversations),
        ]


async def test_what_was_acknowledged_is_there_after_kills_of_the_store_and_of_an_ingress(
    server: Server,
) -> None:
    writing = Writing(server)
    async with writing.client, asyncio.timeout(PATIENCE_S):
        for title in (STORE, INGRESS, STORE):
            async with writing.crowd:
                await writing.go_on(5)
                kill_process(wait_pids(server, title)[0])
                await writing.go_on(5)
        assert await writing.find_faults() == []
    assert len(writing.ledger.acknowledged) >= 60
    assert writing.ledger.refusals == []


@pytest.fixture
def target() -> Iterator[Target]:
    """A server of the test's own, with one small model, in a folder whose path Ray can use."""
    with tempfile.TemporaryDirectory(prefix="crash", dir="/tmp") as folder:
        target = Target(Path(folder), num_ingresses=1)
        try:
            target.server.wait_ready()
            yield target
        finally:
            target.kill_all()


async def test_what_was_acknowledged_is_there_when_the_whole_server_was_killed_and_started_again(
    target: Target,
) -> None:
    run = Run(target, CLIENTS, seed=0)
    await run.play(iter(["server"]))
    assert run.outcome.is_well, to_report(run.outcome)
    assert len(run.outcome.ledger.acknowledged) > CLIENTS
