"""The store that lives in a file and outlives its process."""

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from stores.bounded import BoundedStore, Index
from stores.database import is_damage, open_database, read_identity, set_aside, to_fault
from stores.errors import StoreFaultError, StoreRefusal
from stores.loading import load_index
from stores.schema import DamagedRowError
from stores.sqlite_shelf import SqliteShelf
from stores.types import StoreBounds

_log = logging.getLogger(__name__)

# A server that is stopped may take that long to let go of the file.
LOCK_WAIT_S: Final = 10.0


class SqliteStore(BoundedStore):
    """A `Store` in one file that it has alone. One call at a time, from any thread.

    What a call has kept is in the file when it returns: it is whole after a crash of the process,
    and after one of the machine but for the last moments. Only the order of uses since the last
    change may be lost. `clock` gives seconds that never run backwards in a process and go on
    across restarts, such as those since the epoch.
    """

    def __init__(
        self,
        path: Path,
        bounds: StoreBounds,
        clock: Callable[[], float],
        lock_wait_s: float = LOCK_WAIT_S,
    ) -> None:
        """Open the file, or make it; one that is not whole is set aside for a new one.

        Raises:
            StoreFaultError: where it cannot be opened or made, is in use, is of a newer version,
                or another program's; it names the file and the setting.
        """
        super().__init__(bounds, clock)
        self._path = path
        self._open(lock_wait_s)

    def close(self) -> None:
        """Write the last uses and let go of the file. Whoever calls then gets StoreFaultError."""
        try:
            self._shelf.write(with_uses=True)
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.ProgrammingError:
            return  # it is closed already
        except sqlite3.Error:
            _log.exception("The store could not write its last uses to its file.")
        finally:
            self._connection.close()

    def check(self) -> None:
        """Say so where the file has been damaged or taken away since: a new process begins another.

        Raises:
            StoreFaultError: where it cannot be read any more, or nobody could open it again.
        """
        if read_identity(self._path) != self._identity:
            raise to_fault(self._path, "it was taken away while the server ran")
        try:
            if self._is_stale:
                self._load()
        except (sqlite3.Error, DamagedRowError) as error:
            if is_damage(error):
                raise to_fault(self._path, str(error)) from None

    # ── calls ────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _call(self) -> Iterator[None]:
        with self._guard():
            try:
                yield
            except StoreRefusal:
                self._shelf.write()  # what had expired
                raise
            self._shelf.write()

    @contextmanager
    def _peek(self) -> Iterator[None]:
        with self._guard():
            try:
                yield
            except StoreRefusal:
                self._try_write()
                raise
            self._try_write()

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Begin a call. Where it fails, the index is made anew of what is in the file."""
        try:
            if self._is_stale:
                self._load()
            self._tick()
            yield
        except StoreRefusal:
            raise
        except (sqlite3.Error, DamagedRowError):
            _log.exception("The store could not read or write its file.")
            self._give_up()
            raise StoreFaultError("The store could not read or write its file.") from None
        except BaseException:
            self._give_up()
            raise

    def _give_up(self) -> None:
        """Undo a call that failed: the next one begins with what is in the file."""
        self._is_stale = True
        self._shelf.forget_changes()
        try:
            self._shelf.roll_back()
        except sqlite3.Error:
            _log.exception("The store could not roll back.")

    def _try_write(self) -> None:
        """Write what has expired; where that fails, it is for the next call to write."""
        try:
            self._shelf.write()
        except sqlite3.Error:
            _log.exception("The store could not delete from its file what has expired.")
            self._shelf.roll_back()

    # ── opening ──────────────────────────────────────────────────────────────────────────────────

    def _open(self, lock_wait_s: float) -> None:
        try:
            try:
                self._connect(lock_wait_s)
            except (sqlite3.Error, DamagedRowError) as error:
                if not is_damage(error):
                    raise
                aside = set_aside(self._path)
                _log.error(
                    "The store's file %s is damaged (%s). It is now %s, and a new one is begun.",
                    self._path,
                    error,
                    aside,
                )
                self._connect(lock_wait_s)
        except (sqlite3.Error, DamagedRowError, OSError) as error:
            raise to_fault(self._path, _to_reason(error)) from None

    def _connect(self, lock_wait_s: float) -> None:
        self._connection = open_database(self._path, lock_wait_s)
        self._identity = read_identity(self._path)
        try:
            self._shelf = SqliteShelf(self._connection, int(self._now_s * 1_000_000))
            self._load()
            self._shrink()
        except BaseException:
            self._connection.close()
            raise

    def _load(self) -> None:
        self._index: Index = load_index(self._bounds, self._shelf, self._now_s)
        self._is_stale = False
        self._try_write()

    def _shrink(self) -> None:
        """Give free pages back to the disk, many where the bounds have become smaller."""
        try:
            # It gives a row without a column for each page, at the first of which `execute` stops.
            self._connection.executescript("PRAGMA incremental_vacuum")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.OperationalError:
            _log.exception("The store could not shrink its file.")


def _to_reason(error: Exception) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & 0xFF == sqlite3.SQLITE_BUSY:
        return "another process has it open"
    return str(error)
