"""Kills a server while clients write, and looks whether all is there that they were told.

    python -m benchmarks.crashes [--kills 50] [--clients 8] [--ingresses 1]

It starts a real server over a small random model, with a store on disk. Clients write responses,
streamed and not, single ones, chains and conversations. In turn it kills the store's process, that
of an ingress, and all processes of the server at once, which it then starts again on the same
folder. After each kill it measures the seconds until a new response is answered, lets what is on
its way come to its end, and reads back what was acknowledged. At the end it reads all, and the
store's file. See benchmarks/README.md for what counts as lost and as a stranger.
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.crash_clients import Checker, Crowd, Sender, Writer, make_client, wait_answered
from benchmarks.crash_ledger import TAG, Kept, Ledger, find_missing, find_strangers
from benchmarks.online import number
from benchmarks.report import NOTHING, percentile, to_table
from deployments.resource.codec import decode_stored
from deployments.store_app import FILE_NAME
from deployments.store_deployment import CLAIM_S
from stores.schema import decode_body, decode_text
from tests.support.server import Server, write_config
from tests.support.tiny_model import save_tiny_model

MODEL: Final = "random"
KINDS: Final = ("store", "ingress", "server")
TITLES: Final = {"store": "ServeReplica:store:", "ingress": "ServeReplica:api:"}
EARLIEST_S, LATEST_S = 0.3, 2.0  # from the clients' first request to the kill
AFTERWARDS_S: Final = 0.5  # for which they go on when the server is back
SAMPLE: Final = 100  # of what was acknowledged before earlier kills, read after each
GONE_S: Final = 20.0

CONFIG: Final[dict[str, Any]] = {
    "proxy_location": "HeadOnly",
    "http_options": {"host": "127.0.0.1", "port": 0},
    "logging_config": {"encoding": "JSON", "log_level": "INFO"},
    "applications": [
        {
            "name": "store",
            "import_path": "deployments.store_app:build",
            "route_prefix": None,
            "args": {
                "responses_store_max_entries": 1_000_000,
                "responses_store_ttl_secs": 0,
                "conversation_store_max_entries": 1_000_000,
                "conversation_store_ttl_secs": 0,
            },
        },
        {
            "name": "api",
            "import_path": "deployments.api_app:build",
            "route_prefix": "/",
            "args": {"models": [], "store": "store"},
        },
    ],
}


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill: seconds until a response was answered again, and what was wrong after it."""

    kind: str
    recovery_s: float
    num_acknowledged: int
    faults: tuple[str, ...]


@dataclass(slots=True)
class Outcome:
    """What came of a run: the kills, and what was wrong at its end."""

    ledger: Ledger
    kills: list[Kill] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    still_running: int = 0

    @property
    def is_well(self) -> bool:
        faults = [*self.faults, *self.strangers, *(f for kill in self.kills for f in kill.faults)]
        return not faults and not self.still_running


class Target:
    """A server whose processes are killed and that is started again on the same folder."""

    def __init__(self, folder: Path, num_ingresses: int) -> None:
        self._folder = folder
        source = folder / "source.yaml"
        source.write_text(yaml.safe_dump(CONFIG))
        model = {"name": MODEL, "source": str(save_tiny_model(folder / "model"))}
        self._config = folder / "serve_config.yaml"
        changes = {"api": {"replicas": num_ingresses}}
        self._port = write_config(self._config, source, changes, [model])
        self.server = self._start()

    def _start(self) -> Server:
        return Server.start(self._config, self._port, self._folder, RAY_TMPDIR=str(self._folder))

    def kill(self, kind: str, rng: random.Random) -> None:
        """Kill one process of the kind with a signal that nothing can catch, or all there are."""
        if kind == "server":
            self.kill_all()
        else:
            kill_process(rng.choice(wait_pids(self.server, TITLES[kind])))

    def kill_all(self) -> None:
        """Again and again: a process that is killed may have begun another one."""
        deadline_s = time.monotonic() + GONE_S
        while pids := self.server.pids():
            for pid in pids:
                kill_process(pid)
            self.server.process.poll()
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"killed processes do not end: {pids}")
        self.server.process.wait(GONE_S)

    def restart(self) -> None:
        """Start it again and wait until it says that it is ready.

        Raises:
            AssertionError: where it does not come up.
        """
        for old in self._folder.glob("r????????"):  # what the killed cluster has left
            shutil.rmtree(old, ignore_errors=True)
        self.server = self._start()
        self.server.wait_ready()

    @property
    def store_file(self) -> Path:
        return self._folder / "data" / FILE_NAME


def kill_process(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def wait_pids(server: Server, title: str) -> list[int]:
    """The processes of a title, as soon as there is one."""
    deadline_s = time.monotonic() + GONE_S
    while not (pids := server.pids(title)):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"there is no process {title}")
        time.sleep(0.05)
    return pids


def read_file(path: Path) -> tuple[list[Kept], int]:
    """The responses that have ended in a store's file, and how many have not.

    Only a copy is opened: to read the log, SQLite writes to the folder.
    """
    with tempfile.TemporaryDirectory() as folder:
        for file in path.parent.glob(f"{path.name}*"):
            shutil.copy(file, folder)
        connection = sqlite3.connect(Path(folder) / path.name)
        try:
            rows = connection.execute(
                "SELECT response_id, status, body FROM entries JOIN nodes USING (row)"
            ).fetchall()
            (num_running,) = connection.execute("SELECT count(*) FROM running").fetchone()
        finally:
            connection.close()
    kept = []
    for response_id, status, body in rows:
        metadata = decode_stored(decode_body(body)).echo.metadata or {}
        kept.append(Kept(decode_text(response_id), metadata.get(TAG), decode_text(status)))
    return kept, num_running


class Run:
    """The kills of one run, one after another."""

    def __init__(self, target: Target, num_clients: int, seed: int) -> None:
        self._target = target
        self._rng = random.Random(seed)
        self._ready_s = time.monotonic()
        self.outcome = Outcome(Ledger())
        client = make_client(f"{target.server.url}/v1", "none")
        self._sender = Sender(client, MODEL, self.outcome.ledger)
        self._checker = Checker(client)
        seeds = [f"{seed}/{each}" for each in range(num_clients)]
        self._crowd = Crowd([Writer(self._sender, random.Random(each)) for each in seeds])

    async def play(self, kinds: Iterator[str]) -> None:
        """Kill one after another, then look at everything that the server has."""
        async with self._sender.client:
            await wait_answered(self._sender)
            for kind in kinds:
                kill = await self._kill(kind)
                self.outcome.kills.append(kill)
                print(f"{len(self.outcome.kills)} {to_line(kill)}", file=sys.stderr)
            await self._check_end()

    async def _kill(self, kind: str) -> Kill:
        ledger = self.outcome.ledger
        before, ledger.kind = ledger.acknowledged, kind
        async with self._crowd:
            await asyncio.sleep(self._rng.uniform(EARLIEST_S, LATEST_S))
            self._target.kill(kind, self._rng)
            killed_s = time.monotonic()
            recovery_s = await self._wait_recovered(kind, killed_s)
            self._ready_s = time.monotonic()
            await asyncio.sleep(AFTERWARDS_S)
        known = set(before)
        new = [attempt for attempt in ledger.acknowledged if attempt not in known]
        sample = self._rng.sample(before, min(SAMPLE, len(before)))
        faults = await self._checker.check_attempts([*new, *sample])
        last = [writer.conversations[-1:] for writer in self._crowd.writers]
        faults += await self._checker.check_conversations([one for each in last for one in each])
        return Kill(kind, recovery_s, len(new), tuple(faults))

    async def _wait_recovered(self, kind: str, killed_s: float) -> float:
        """Seconds from the kill to the first answer to a request that was sent after it."""
        answered = self._wait_answered(killed_s)
        if kind != "server":
            return await answered
        recovery_s, _ = await asyncio.gather(answered, asyncio.to_thread(self._target.restart))
        return recovery_s

    async def _wait_answered(self, killed_s: float) -> float:
        await wait_answered(self._sender)
        return time.monotonic() - killed_s

    async def _check_end(self) -> None:
        """Read all that was acknowledged; what only began must have ended when its time is over."""
        ledger, outcome = self.outcome.ledger, self.outcome
        outcome.faults += await self._checker.check_attempts(ledger.acknowledged)
        outcome.faults += await self._checker.check_conversations(self._crowd.conversations)
        await asyncio.sleep(max(0.0, self._ready_s + CLAIM_S - time.monotonic()))
        outcome.faults += await self._checker.check_ended(ledger.seen)
        await wait_answered(self._sender)
        outcome.faults += [f"a client was told {refusal}" for refusal in ledger.refusals]
        if code := await asyncio.to_thread(self._target.server.stop):
            outcome.faults.append(f"the server ended with {code}")
        kept, outcome.still_running = read_file(self._target.store_file)
        outcome.faults += find_missing(kept, ledger.attempts)
        outcome.strangers += find_strangers(kept, ledger.attempts)


def to_report(outcome: Outcome) -> str:
    """A table of the kills by their kind, and what clients saw and what is wrong."""
    head = "kill|times|back after s, p50|max|acknowledged|lost"
    rows = []
    for kind in (*KINDS, "all"):
        kills = [kill for kill in outcome.kills if kind in (kill.kind, "all")]
        times_s = [kill.recovery_s for kill in kills]
        rows.append(
            [
                kind,
                str(len(kills)),
                *(
                    NOTHING if seconds is None else f"{seconds:.2f}"
                    for seconds in (percentile(times_s, 50), max(times_s, default=None))
                ),
                str(sum(kill.num_acknowledged for kill in kills)),
                str(sum(len(kill.faults) for kill in kills)),
            ]
        )
    rows.append(["at the end", NOTHING, NOTHING, NOTHING, NOTHING, str(len(outcome.faults))])
    ledger = outcome.ledger
    notes = [
        f"- attempts: {to_counts(ledger.count_ends())}",
        f"- known to have begun, without an end: {len(ledger.seen)}",
        f"- what clients saw: {to_counts(ledger.errors)}",
        f"- strangers: {len(outcome.strangers)}; in progress for ever: {outcome.still_running}",
        *(
            f"- after a kill of {kill.kind}: {fault}"
            for kill in outcome.kills
            for fault in kill.faults
        ),
        *(f"- {fault}" for fault in (*outcome.faults, *outcome.strangers)),
    ]
    return to_table(head.split("|"), rows) + "\n\n" + "\n".join(notes)


def to_line(kill: Kill) -> str:
    """One kill for whoever waits for the end of the run, with a line more for each fault."""
    told = f"{kill.num_acknowledged} acknowledged, {len(kill.faults)} faults"
    return "\n  ".join([f"{kill.kind}: back after {kill.recovery_s:.2f} s, {told}", *kill.faults])


def to_counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counter.most_common()) or "none"


def to_json(outcome: Outcome) -> str:
    whole = {
        "kills": [asdict(kill) for kill in outcome.kills],
        "ends": outcome.ledger.count_ends(),
        "errors": outcome.ledger.errors,
        "faults": outcome.faults,
        "strangers": outcome.strangers,
        "still_running": outcome.still_running,
    }
    return json.dumps(whole, indent=1)


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.crashes", description=__doc__)
    add = parser.add_argument
    add("--kills", type=number(1, 10_000), default=50)
    add("--kind", action="append", choices=KINDS, help="default: each of them in turn")
    add("--clients", type=number(1, 64), default=8)
    add("--ingresses", type=number(1, 8), default=1)
    add("--seed", type=int, default=0)
    add("--json", type=Path, metavar="FILE", help="write every figure there")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Kill and report; 1 where something was lost, or is there that should not be."""
    options = parse_arguments(arguments)
    kinds = itertools.islice(itertools.cycle(options.kind or KINDS), options.kills)
    with tempfile.TemporaryDirectory(prefix="crash", dir="/tmp") as folder:
        target = Target(Path(folder), options.ingresses)
        try:
            target.server.wait_ready()
            run = Run(target, options.clients, options.seed)
            try:
                asyncio.run(run.play(kinds))
            finally:
                print(to_report(run.outcome))
        finally:
            target.kill_all()
    if options.json is not None:
        options.json.write_text(to_json(run.outcome), encoding="utf-8")
    return 0 if run.outcome.is_well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
