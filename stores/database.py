"""Opens the file of a store: who else has it, whose it is, its version, and whether it is whole."""

import errno
import os
import sqlite3
import stat
import time
from pathlib import Path
from typing import Final

from stores.errors import StoreFaultError
from stores.schema import APPLICATION_ID, MIGRATIONS, DamagedRowError

# The setting that says where the file is.
FOLDER_SETTING: Final = "data_folder"
# Smaller than usual: a full file of bodies of 1 to 60 kB was measured 2 % larger than what counts
# in it, and 5 % with pages of 4096 bytes.
PAGE_BYTES: Final = 2048
JOURNAL_BYTES: Final = 4 * 1024 * 1024

# The header of a SQLite file (sqlite.org/fileformat.html, 1.3): numbers are big-endian.
MAGIC: Final = b"SQLite format 3\0"
HEADER_BYTES: Final = 100
VERSION_AT: Final = 60
APPLICATION_AT: Final = 68

# Codes that tell of the file's contents; all others tell of the disk, of rights or of a lock.
_DAMAGE_CODES: Final = frozenset(
    (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_NOTADB)
)


def open_database(path: Path, lock_wait_s: float) -> sqlite3.Connection:
    """A connection to the file, made if need be, that no other process can have at the same time.

    Raises:
        StoreFaultError: where it cannot be opened, or is not this server's or of a later one.
        DamagedRowError: where it is not whole; so do some classes of `sqlite3.Error`, see
            `is_damage`.
    """
    try:
        _make_file(path)
        _check_header(path)
        _restrict(path)
    except OSError as error:
        raise to_fault(path, error.strerror or str(error)) from None
    connection = sqlite3.connect(
        path, timeout=lock_wait_s, isolation_level=None, check_same_thread=False
    )
    try:
        _prepare(path, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def to_fault(path: Path, reason: str) -> StoreFaultError:
    """An error for whoever starts the server, which names the file."""
    return StoreFaultError(
        f"The store cannot use the file {path}: {reason}. "
        f"The setting `{FOLDER_SETTING}` says where the file is."
    )


def read_identity(path: Path) -> tuple[int, int] | None:
    """Which file it is, whatever its name: device and number; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_damage(error: Exception) -> bool:
    """Whether an error tells of a file that is not whole."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)
        return code is not None and code & 0xFF in _DAMAGE_CODES
    return isinstance(error, DamagedRowError)


def set_aside(path: Path) -> Path:
    """Rename a file that is not whole, and its journals; returns its new name."""
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    aside = path.with_name(f"{path.name}.corrupt-{moment}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.corrupt-{moment}-{number}")
    for suffix in ("-wal", "-shm", "-journal", ""):
        try:
            os.rename(f"{path}{suffix}", f"{aside}{suffix}")
        except FileNotFoundError:
            continue
    return aside


def _make_file(path: Path) -> None:
    """Make the file and its folder, for this user alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
    finally:
        os.close(descriptor)


def _check_header(path: Path) -> None:
    """Look at the header before SQLite does, which might write to what is not ours."""
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
    if not header:
        return
    if len(header) < HEADER_BYTES or not header.startswith(MAGIC):
        raise DamagedRowError("it has not the header of a SQLite file")
    if _read_number(header, APPLICATION_AT) != APPLICATION_ID:
        raise to_fault(path, "it is another program's")
    _check_version(path, _read_number(header, VERSION_AT))


def _restrict(path: Path) -> None:
    """Let nobody else read the file and its log; SQLite makes the log with the file's rights."""
    for name in (path, Path(f"{path}-wal")):
        if name.exists():
            name.chmod(0o600)


def _read_number(header: bytes, at: int) -> int:
    return int.from_bytes(header[at : at + 4], "big")


def _check_version(path: Path, version: int) -> None:
    if version > len(MIGRATIONS):
        raise to_fault(
            path,
            f"it is of a newer version of this server ({version}, not {len(MIGRATIONS)} or less)",
        )


def _prepare(path: Path, connection: sqlite3.Connection) -> None:
    """Lock, migrate and check. Exclusive locking comes first: it spares the shared memory file."""
    if path.stat().st_size == 0:  # only a new file takes these
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    for pragma in (
        "locking_mode = EXCLUSIVE",
        "secure_delete = ON",
        "synchronous = NORMAL",
        f"journal_size_limit = {JOURNAL_BYTES}",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    _migrate(path, connection)
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise to_fault(path, "the disk allows no write-ahead log")
    # In exclusive mode the lock stays; a transaction that writes takes the whole of it.
    connection.execute("BEGIN EXCLUSIVE")
    connection.execute("COMMIT")
    problems = connection.execute("PRAGMA quick_check(1)").fetchall()
    if problems != [("ok",)]:
        raise DamagedRowError(str(problems))


def _migrate(path: Path, connection: sqlite3.Connection) -> None:
    """Bring the tables to this version, each step wholly or not at all."""
    connection.execute("BEGIN EXCLUSIVE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute("ROLLBACK")
    _check_version(path, version)
    for number, statements in enumerate(MIGRATIONS[version:], start=version + 1):
        connection.execute("BEGIN EXCLUSIVE")
        for statement in statements:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
