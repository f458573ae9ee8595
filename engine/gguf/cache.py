"""Folders made once and then shared by all processes: none is ever seen half made."""

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock, Timeout

logger = logging.getLogger(__name__)

PARTIAL, LOCK = ".partial", ".lock"


def make_once(
    target: Path, make: Callable[[Path], Path], is_complete: Callable[[Path], bool]
) -> Path:
    """Return the folder `target`, made first where it does not exist yet.

    `make` gets an empty folder to work in and returns the folder below it that becomes the target.
    Processes that want the same target at the same time wait for the one that makes it. A lock of
    the operating system ends with its process, so a killed one leaves only a partial folder,
    which the next call removes.

    Raises:
        OSError: the folder cannot be written. Whatever `make` raises passes through.
    """
    if is_complete(target):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(target.parent)
    lock = FileLock(beside(target, LOCK))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        logger.info("waiting for the process that makes %s", target)
        lock.acquire()
    try:
        if not is_complete(target):
            replace_folder(target, make)
    finally:
        lock.release()
    return target


def replace_folder(target: Path, make: Callable[[Path], Path]) -> None:
    """Make the folder beside its place, then move it there in one step.

    It is written to the disk before it moves: a machine that stops in between must not come back
    with a target whose files are empty.
    """
    work = beside(target, PARTIAL)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        made = make(work)
        for path in (*made.iterdir(), made):
            sync(path)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(made, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def remove_abandoned(folder: Path) -> None:
    """Remove the partial folders of processes that were killed: nobody holds their locks."""
    for partial in folder.glob(f"*{PARTIAL}"):
        lock = FileLock(beside(partial.with_name(partial.name.removesuffix(PARTIAL)), LOCK))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            continue
        try:
            shutil.rmtree(partial, ignore_errors=True)
        finally:
            lock.release()


def beside(target: Path, suffix: str) -> Path:
    """The path next to a target that bears its name and a suffix."""
    return target.with_name(target.name + suffix)


def sync(path: Path) -> None:
    """Make the disk hold what was written to a file or folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
