"""Measures the store as the HTTP application uses it: over handles, on disk and in memory in turns.

    python -m benchmarks.store [--responses 10000] [--json FILE]

It starts a Ray cluster of its own with the real store applications, without HTTP and without a
model, and calls them as an ingress does. A put is the two calls of a response, its beginning and
its end. All that is read is compared with what was put. See benchmarks/README.md for the figures.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.online import number
from benchmarks.report import NOTHING, percentile, to_ratio, to_table
from benchmarks.store_cluster import MAX_ENTRIES, Running, deploy_both, own_cluster
from benchmarks.store_records import OWNER, as_begun, make_record, to_id
from configs.environment import STORE_VARIABLES
from configs.ray_environment import prepare_ray_environment
from deployments.errors import UnavailableError
from deployments.store_app import FILE_NAME
from stores.sqlite import SqliteStore
from stores.types import Bounds, HistoryQuery, StoreBounds

MIB: Final = 1 << 20
DEFAULT_BOUND, TIGHT_BOUND = 256 * MIB, 64 * MIB
CONCURRENT: Final = 8
ROUND: Final = 250  # calls of one store before it is the other's turn
RETRY_S: Final = 0.02
NUM_CHAINS: Final = 20
SHOWN_TURNS: Final = (1, 10, 25, 50)

Times = dict[str, tuple[float, ...]]  # milliseconds of each call, by the store's name


@dataclass(frozen=True, slots=True)
class Calls:
    """How long each of some calls took, by store, in milliseconds."""

    what: str
    num_bytes: int
    clients: int
    each_ms: Times


@dataclass(frozen=True, slots=True)
class Space:
    """What a store took of memory and disk while it was filled up to its bound, in bytes."""

    store: str
    bound_bytes: int
    num_put: int
    num_kept: int
    counted_bytes: int
    resident_before_bytes: int
    resident_most_bytes: int
    file_most_bytes: int
    log_most_bytes: int


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the chains; `file_bytes` is by how much the file grew with it."""

    turn: int
    history: Calls
    put: Calls
    file_bytes: int


@dataclass(frozen=True, slots=True)
class Figures:
    """All that was measured; `restarts_s` are seconds from a kill to the next answer."""

    calls: list[Calls]
    spaces: list[Space]
    restarts_s: list[float]
    turns: list[Turn]


# ── calls ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Caller:
    """The calls that are measured, with records of one size; each returns its milliseconds.

    All raise LookupError where something is not as it was put.
    """

    store: Running
    num_bytes: int

    async def put(self, index: int, parent: int | None = None) -> float:
        record = make_record(index, self.num_bytes, parent)
        begun = as_begun(record)
        started_s = time.perf_counter()
        await self.store.client.begin(begun, "model", True)
        await self.store.client.finish(record, True)
        return (time.perf_counter() - started_s) * 1e3

    async def get(self, index: int) -> float:
        started_s = time.perf_counter()
        record = await self.store.client.get(to_id(index), OWNER)
        elapsed_ms = (time.perf_counter() - started_s) * 1e3
        expected = make_record(index, self.num_bytes)
        if record is None or (record.body, record.output) != (expected.body, expected.output):
            raise LookupError(f"{self.store.name}: response {index} is not as it was put")
        return elapsed_ms

    async def read_history(self, parent: int | None, num_items: int) -> float:
        query = HistoryQuery(OWNER, None if parent is None else to_id(parent))
        started_s = time.perf_counter()
        history = await self.store.client.read_history(query)
        elapsed_ms = (time.perf_counter() - started_s) * 1e3
        if len(history.items) != num_items:
            raise LookupError(f"{self.store.name}: {len(history.items)} items, not {num_items}")
        return elapsed_ms


async def repeat(
    what: Callable[[int], Awaitable[float]], indices: Iterable[int], num_clients: int
) -> list[float]:
    """Do something once for each number, from so many clients at once."""
    left = iter(indices)
    times: list[float] = []

    async def work() -> None:
        times.extend([await what(index) for index in left])

    await asyncio.gather(*(work() for _ in range(num_clients)))
    return times


async def take_turns(
    whats: dict[str, Callable[[int], Awaitable[float]]],
    indices: range,
    num_clients: int,
    after_round: Callable[[], None] = lambda: None,
) -> Times:
    """`repeat` for each store in turns, so that a noisy machine is noisy to all of them."""
    times: dict[str, list[float]] = {name: [] for name in whats}
    for begin in range(0, len(indices), ROUND):
        for name, what in whats.items():
            times[name] += await repeat(what, indices[begin : begin + ROUND], num_clients)
        after_round()
    return {name: tuple(each) for name, each in times.items()}


async def measure_calls(
    stores: Sequence[Running],
    count: int,
    num_bytes: int,
    clients: Sequence[int],
    after_round: Callable[[], None] = lambda: None,
) -> list[Calls]:
    """Puts of all records, then gets of all: an equal part of them by each number of clients."""
    callers = {store.name: Caller(store, num_bytes) for store in stores}
    part = count // len(clients)
    calls = []
    for what in ("put", "get"):
        for place, num_clients in enumerate(clients):
            whats = {name: getattr(caller, what) for name, caller in callers.items()}
            indices = range(place * part, (place + 1) * part)
            each_ms = await take_turns(whats, indices, num_clients, after_round)
            calls.append(Calls(what, num_bytes, num_clients, each_ms))
            print(f"{what} of {num_bytes} bytes, {num_clients} clients: done", file=sys.stderr)
    return calls


# ── space ────────────────────────────────────────────────────────────────────────────────────────


class Watch:
    """The largest memory and files of some stores, whenever it is told to look."""

    def __init__(self, stores: Sequence[Running]) -> None:
        self._stores = stores
        self.before = {store.name: store.measure_memory() for store in stores}
        self.resident = dict(self.before)
        self.files = dict.fromkeys(self.before, 0)
        self.logs = dict.fromkeys(self.before, 0)

    def look(self) -> None:
        for store in self._stores:
            name = store.name
            self.resident[name] = max(self.resident[name], store.measure_memory())
            self.files[name] = max(self.files[name], store.measure_file())
            self.logs[name] = max(self.logs[name], store.measure_file("-wal"))


async def measure_space(
    store: Running, count: int, num_bytes: int, bound_bytes: int, watch: Watch
) -> Space:
    """What is kept of so many records that were put in their order, and what it takes.

    Raises:
        LookupError: where it is not the newest that are kept.
    """
    kept = [i for i in range(count) if await store.client.get(to_id(i), OWNER) is not None]
    if kept != list(range(count - len(kept), count)):
        raise LookupError(f"{store.name} has not kept the newest")
    return Space(
        store=store.name,
        bound_bytes=bound_bytes,
        num_put=count,
        num_kept=len(kept),
        counted_bytes=sum(make_record(i, num_bytes).size_bytes for i in kept),
        resident_before_bytes=watch.before[store.name],
        resident_most_bytes=watch.resident[store.name],
        file_most_bytes=watch.files[store.name],
        log_most_bytes=watch.logs[store.name],
    )


async def measure_evictions(count: int, num_bytes: int, folder: Path) -> list[Space]:
    """Put far more than the bound allows, one after another."""
    stores = deploy_both("tight", TIGHT_BOUND, folder)
    watch = Watch(stores)
    whats = {store.name: Caller(store, num_bytes).put for store in stores}
    await take_turns(dict(whats), range(count), 1, watch.look)
    return [await measure_space(each, count, num_bytes, TIGHT_BOUND, watch) for each in stores]


# ── restarts and chains ──────────────────────────────────────────────────────────────────────────


async def measure_restart(caller: Caller, count: int) -> float:
    """Seconds from the kill of the store's process to its next answer; then all must be there."""
    process = caller.store.find_process()
    process.kill()
    started_s = time.perf_counter()
    while True:
        try:
            await caller.get(0)
            break
        except UnavailableError:
            await asyncio.sleep(RETRY_S)
    elapsed_s = time.perf_counter() - started_s
    await repeat(caller.get, range(count), CONCURRENT)
    return elapsed_s


async def measure_chains(stores: Sequence[Running], num_bytes: int, folder: Path) -> list[Turn]:
    """Chains that grow turn by turn; each turn reads the history that it goes on from."""
    callers = {store.name: Caller(store, num_bytes) for store in stores}
    growth = measure_growth(folder / "growth", num_bytes)
    turns = []
    for turn in range(1, max(SHOWN_TURNS) + 1):
        histories: dict[str, tuple[float, ...]] = {}
        puts: dict[str, tuple[float, ...]] = {}
        for name, caller in callers.items():
            each = [await play_turn(caller, chain, turn) for chain in range(NUM_CHAINS)]
            histories[name] = tuple(history_ms for history_ms, _ in each)
            puts[name] = tuple(put_ms for _, put_ms in each)
        history = Calls("history", num_bytes, 1, histories)
        turns.append(Turn(turn, history, Calls("put", num_bytes, 1, puts), growth[turn - 1]))
    return turns


async def play_turn(caller: Caller, chain: int, turn: int) -> tuple[float, float]:
    """Milliseconds of a turn's history and of its put. Turns of a chain have numbers in a row."""
    index = to_number(chain, turn)
    parent = index - 1 if turn > 1 else None
    history_ms = await caller.read_history(parent, 2 * (turn - 1))
    return history_ms, await caller.put(index, parent)


def to_number(chain: int, turn: int) -> int:
    return (chain + 1) * 1000 + turn


def measure_growth(folder: Path, num_bytes: int) -> list[int]:
    """By how many bytes a store's file grows with each turn of one chain, in this process.

    The store is closed after each turn, so that nothing of it is in the log.
    """
    bounds = Bounds(MAX_ENTRIES, DEFAULT_BOUND, 0)
    sizes = []
    for turn in range(max(SHOWN_TURNS) + 1):
        store = SqliteStore(folder / FILE_NAME, StoreBounds(bounds, bounds), time.time)
        if turn:
            record = make_record(to_number(0, turn), num_bytes, to_number(0, turn - 1))
            record = record if turn > 1 else make_record(to_number(0, turn), num_bytes)
            store.begin(as_begun(record))
            store.finish(record)
        store.close()
        sizes.append(sum(file.stat().st_size for file in folder.iterdir()))
    return [after - before for before, after in zip(sizes, sizes[1:], strict=False)]


# ── the run ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Plan:
    """What is put how often: `num_bytes` of a response, of a large one, and of a chain's turn."""

    responses: int
    num_bytes: int
    large: int
    large_bytes: int
    turn_bytes: int
    kills: int
    json_path: Path | None


async def measure(plan: Plan, folder: Path) -> Figures:
    count, num_bytes = plan.responses, plan.num_bytes
    stores = deploy_both("roomy", DEFAULT_BOUND, folder)
    watch = Watch(stores)
    calls = await measure_calls(stores, count, num_bytes, (1, CONCURRENT), watch.look)
    spaces = [await measure_space(each, count, num_bytes, DEFAULT_BOUND, watch) for each in stores]
    on_disk = Caller(stores[0], num_bytes)
    restarts_s = [await measure_restart(on_disk, count) for _ in range(plan.kills)]
    stores = deploy_both("others", DEFAULT_BOUND, folder)
    calls += await measure_calls(stores, plan.large, plan.large_bytes, (1,))
    turns = await measure_chains(stores, plan.turn_bytes, folder)
    spaces += await measure_evictions(count, num_bytes, folder)
    return Figures(calls, spaces, restarts_s, turns)


def to_report(figures: Figures) -> str:
    restarts = [f"{seconds:.2f}" for seconds in figures.restarts_s]
    return "\n\n".join(
        [
            to_calls_table(figures.calls),
            to_space_table(figures.spaces),
            f"Seconds from a kill of the store on disk to the next answer: {', '.join(restarts)}; "
            "all was there each time.",
            to_turns_table(figures.turns),
        ]
    )


def to_calls_table(calls: Iterable[Calls]) -> str:
    """Percentiles of each kind of call, and the one on disk as a multiple of that in memory."""
    rows = []
    for each in calls:
        medians = [percentile(times, 50) for times in each.each_ms.values()]
        for store, times in each.each_ms.items():
            is_first = store == next(iter(each.each_ms))
            rows.append(
                [
                    each.what,
                    f"{each.num_bytes:,}",
                    str(each.clients),
                    store.partition("-")[2],
                    *(f"{percentile(times, percent) or 0:.2f}" for percent in (50, 95, 99)),
                    to_ratio(medians[0], medians[1]) if is_first else NOTHING,
                ]
            )
    head = "call|bytes|clients|store|p50 ms|p95|p99|disk / memory"
    return to_table(head.split("|"), rows)


def to_space_table(spaces: Iterable[Space]) -> str:
    head = "store|bound MiB|put|kept|counted MiB|file, most|log, most|memory before|memory, most"
    rows = [
        [
            space.store.partition("-")[2],
            f"{space.bound_bytes / MIB:.0f}",
            str(space.num_put),
            str(space.num_kept),
            *(
                f"{size / MIB:.1f}" if size else NOTHING
                for size in (
                    space.counted_bytes,
                    space.file_most_bytes,
                    space.log_most_bytes,
                    space.resident_before_bytes,
                    space.resident_most_bytes,
                )
            ),
        ]
        for space in spaces
    ]
    return to_table(head.split("|"), rows)


def to_turns_table(turns: Iterable[Turn]) -> str:
    """Medians of a few turns; the file's growth is over the turns since the row above."""
    rows, grown = [], []
    for turn in turns:
        grown.append(turn.file_bytes)
        if turn.turn not in SHOWN_TURNS:
            continue
        medians = [
            f"{percentile(times, 50) or 0:.2f}"
            for calls in (turn.history, turn.put)
            for times in calls.each_ms.values()
        ]
        rows.append([str(turn.turn), *medians, f"{sum(grown) / len(grown):,.0f}"])
        grown.clear()
    head = "turn|history ms, disk|memory|put ms, disk|memory|bytes of the file a turn"
    return to_table(head.split("|"), rows)


def parse_arguments(arguments: Sequence[str]) -> Plan:
    parser = argparse.ArgumentParser(prog="benchmarks.store", description=__doc__)
    add = parser.add_argument
    add("--responses", type=number(16, MAX_ENTRIES), default=10_000)
    add("--bytes", type=number(4000, MIB), default=20_000, help="of a response; default: 20000")
    add("--large", type=number(1, 200), default=50, help="how many large ones; default: 50")
    add("--large-bytes", type=number(4000, 3 * MIB), default=1_000_000)
    add("--turn-bytes", type=number(4000, MIB), default=4000, help="of a chain's turn")
    add("--kills", type=number(0, 100), default=5, help="of the store's process; default: 5")
    add("--json", type=Path, metavar="FILE", help="write every figure there")
    options = parser.parse_args(arguments)
    return Plan(
        options.responses,
        options.bytes,
        options.large,
        options.large_bytes,
        options.turn_bytes,
        options.kills,
        options.json,
    )


def set_environment(arguments: Sequence[str]) -> None:
    """Run this anew in the environment that Ray reads when it is imported, unless it is that."""
    wanted = prepare_ray_environment(os.environ)
    foreign = {"ANTIPHON_DATA_DIR", *STORE_VARIABLES} & os.environ.keys()
    if foreign or any(os.environ.get(name) != value for name, value in wanted.items()):
        kept = {name: value for name, value in os.environ.items() if name not in foreign}
        command = [sys.executable, "-m", "benchmarks.store", *arguments]
        os.execve(sys.executable, command, {**kept, **wanted})


def main(arguments: Sequence[str]) -> int:
    """Measure and report; it raises where something that was put is not there."""
    plan = parse_arguments(arguments)
    set_environment(arguments)
    with own_cluster() as folder:
        figures = asyncio.run(measure(plan, folder))
    print(to_report(figures))
    if plan.json_path is not None:
        plan.json_path.write_text(json.dumps(asdict(figures), indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
