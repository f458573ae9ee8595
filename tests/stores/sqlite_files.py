"""What the tests of the file of a `SqliteStore` need."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from stores.sqlite import SqliteStore
from stores.types import StoreBounds
from tests.stores.under_test import PLENTY, Caller, ManualClock

ROOT = Path(__file__).parents[2]
NAME = "store.sqlite3"
MANY = StoreBounds(PLENTY, PLENTY)


@contextmanager
def opened(
    folder: Path, bounds: StoreBounds = MANY, clock: Callable[[], float] | None = None
) -> Iterator[Caller]:
    """The store in that folder, until the end of the block."""
    store = SqliteStore(folder / NAME, bounds, clock or ManualClock(), lock_wait_s=0.1)
    try:
        yield Caller(store)
    finally:
        store.close()


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@contextmanager
def running_python(script: str, *args: object) -> Iterator["subprocess.Popen[str]"]:
    """Another process that runs a script, and is killed at the end of the block."""
    command = [sys.executable, "-c", script, *map(str, args)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
