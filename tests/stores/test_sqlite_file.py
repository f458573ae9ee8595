"""The file of a store: whose it is, its version, its damage, and a disk that fails."""

import logging
import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from stores import database, schema
from stores.errors import StoreFaultError
from stores.sqlite import SqliteStore
from tests.stores.sqlite_files import MANY, NAME, list_names, opened, read_line, running_python
from tests.stores.under_test import Caller, ManualClock, make_record

HOLD = """
import sys
from pathlib import Path
from tests.stores.sqlite_files import opened
with opened(Path(sys.argv[1])):
    print("open", flush=True)
    sys.stdin.readline()
"""


def fill(folder: Path) -> None:
    with opened(folder) as caller:
        for number in range(40):
            caller.finish(f"r{number}", body=f"{number:04} " * 1000)


def check_refused(folder: Path, *words: str) -> None:
    """Opening fails with an error that names the file and the setting, and leaves it as it was."""
    path = folder / NAME
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreFaultError) as caught, opened(folder):
        pass
    for word in (str(path), "`data_folder`", *words):
        assert word in str(caught.value)
    assert (path.read_bytes() if path.is_file() else None) == before


# ── rights and owners ────────────────────────────────────────────────────────────────────────────


def test_nobody_else_may_read_the_folder_and_its_files(tmp_path: Path) -> None:
    old_mask = os.umask(0)
    try:
        with opened(tmp_path / "new") as caller:
            caller.finish("a")
            modes = {it.name: oct(it.stat().st_mode) for it in (tmp_path / "new").iterdir()}
    finally:
        os.umask(old_mask)
    assert modes == {NAME: oct(stat.S_IFREG | 0o600), f"{NAME}-wal": oct(stat.S_IFREG | 0o600)}
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_a_file_that_others_may_read_is_restricted(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / NAME).chmod(0o644)
    with opened(tmp_path):
        assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600


def test_a_second_server_on_the_same_file_is_refused(tmp_path: Path) -> None:
    with running_python(HOLD, tmp_path) as first:
        assert read_line(first) == "open"
        check_refused(tmp_path, "another process has it open")
    with opened(tmp_path) as caller:
        caller.finish("a")
        assert caller.has("a") == ["a"]


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    fill(tmp_path)
    connection = sqlite3.connect(tmp_path / NAME)
    connection.execute(f"PRAGMA user_version = {len(schema.MIGRATIONS) + 1}")
    connection.close()
    check_refused(tmp_path, "newer version")


def test_a_file_of_another_program_is_left_alone(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / NAME)
    connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    check_refused(tmp_path, "another program's")
    assert list_names(tmp_path) == [NAME]


def test_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    check_refused(tmp_path)


def test_a_pipe_in_its_place_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    check_refused(tmp_path, "it is not a file")


def test_a_file_in_the_place_of_its_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").touch()
    check_refused(tmp_path / "folder")


def test_a_folder_that_cannot_be_written_is_refused() -> None:
    folder = Path(tempfile.mkdtemp(prefix="store-"))
    is_root = os.geteuid() == 0
    folder.chmod(0o555)
    try:
        if is_root:
            os.seteuid(65534)  # nobody: root may write everywhere
        check_refused(folder, "Permission denied")
    finally:
        if is_root:
            os.seteuid(0)
        shutil.rmtree(folder)


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / NAME).touch()
    with opened(tmp_path) as caller:
        caller.finish("a")
        assert caller.has("a") == ["a"]
    assert list_names(tmp_path) == [NAME]


# ── migrations ───────────────────────────────────────────────────────────────────────────────────


def test_a_file_of_an_older_version_is_migrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    steps = (*schema.MIGRATIONS, ("CREATE TABLE added (a)", "INSERT INTO added VALUES (7)"))
    monkeypatch.setattr(database, "MIGRATIONS", steps)
    for _ in range(2):
        with opened(tmp_path) as caller:
            assert caller.has("r0", "r39") == ["r0", "r39"]
    connection = sqlite3.connect(tmp_path / NAME)
    assert connection.execute("SELECT a FROM added").fetchall() == [(7,)]
    assert connection.execute("PRAGMA user_version").fetchone() == (len(steps),)
    connection.close()
    monkeypatch.undo()
    check_refused(tmp_path, "newer version")


def test_a_migration_that_fails_leaves_the_old_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    too_much = "INSERT INTO added VALUES (zeroblob(2000000000))"
    steps = (*schema.MIGRATIONS, ("CREATE TABLE added (a)", too_much))
    monkeypatch.setattr(database, "MIGRATIONS", steps)
    check_refused(tmp_path, "too big")
    monkeypatch.undo()
    with opened(tmp_path) as caller:
        assert caller.has("r0", "r39") == ["r0", "r39"]
    assert list_names(tmp_path) == [NAME]


# ── damage ───────────────────────────────────────────────────────────────────────────────────────


def spoil_header(path: Path) -> None:
    write_at(path, 0, b"\0" * 16)


def write_garbage(path: Path) -> None:
    path.write_bytes(b"no database at all " * 1000)


def write_little(path: Path) -> None:
    path.write_bytes(b"SQLite")


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip_pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for at in range(database.PAGE_BYTES, len(data), 3 * database.PAGE_BYTES):
        end = at + database.PAGE_BYTES
        data[at:end] = bytes(byte ^ 0xFF for byte in data[at:end])
    path.write_bytes(data)


def break_a_body(path: Path) -> None:
    """Change where the next page of a body is; only SQLite's own check can see that early."""
    data, page_bytes = path.read_bytes(), database.PAGE_BYTES
    pages = range(0, len(data), page_bytes)
    broken = next(at for at in pages if b"0007 " in data[at + 4 : at + 14])
    write_at(path, broken, b"\x7f\0\0\0")


def lose_a_table(path: Path) -> None:
    execute(path, "DROP TABLE nodes")


def lose_a_parent(path: Path) -> None:
    execute(path, "UPDATE nodes SET parent = 1000000")


def lose_a_life(path: Path) -> None:
    execute(path, "DELETE FROM lives WHERE row = (SELECT min(row) FROM lives)")


def cut_a_list(path: Path) -> None:
    execute(path, "UPDATE nodes SET items = x'0102'")


def double_a_response(path: Path) -> None:
    execute(path, "UPDATE nodes SET response_id = x'61'")


def execute(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def write_at(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


@pytest.mark.parametrize(
    "damage",
    [
        spoil_header,
        write_garbage,
        write_little,
        truncate,
        flip_pages,
        break_a_body,
        lose_a_table,
        lose_a_parent,
        lose_a_life,
        cut_a_list,
        double_a_response,
    ],
)
def test_a_damaged_file_is_set_aside_for_a_new_one(
    tmp_path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path)
    damage(tmp_path / NAME)
    data = (tmp_path / NAME).read_bytes()
    with opened(tmp_path) as caller:
        assert caller.has("r0", "r39") == []
        caller.finish("a")
    (aside,) = (it for it in tmp_path.iterdir() if it.name.startswith(f"{NAME}.corrupt-"))
    assert aside.read_bytes() == data
    assert list_names(tmp_path) == [NAME, aside.name]
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert str(tmp_path / NAME) in record.getMessage() and str(aside) in record.getMessage()
    with opened(tmp_path) as caller:
        assert caller.has("a") == ["a"]


def test_files_set_aside_in_one_second_do_not_replace_each_other(tmp_path: Path) -> None:
    for _ in range(3):
        write_garbage(tmp_path / NAME)
        with opened(tmp_path):
            pass
    assert len(list_names(tmp_path)) == 4


def test_a_body_that_was_altered_is_never_returned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path)
    path = tmp_path / NAME
    write_at(path, path.read_bytes().index(b"0007 0007 0007"), b"0008")
    with opened(tmp_path) as caller:
        with pytest.raises(StoreFaultError) as caught:
            caller.store.get("r7", "alice")
        assert NAME not in str(caught.value) and "SELECT" not in str(caught.value)
        assert isinstance(caller.store, SqliteStore)
        caller.store.check()  # one body is no reason for a new start
        assert caller.has("r6", "r8") == ["r6", "r8"]
    assert "checksum" in caplog.text


@pytest.mark.parametrize("at", [0, 40, 5000])
def test_a_damaged_log_loses_the_last_changes_and_no_more(tmp_path: Path, at: int) -> None:
    fill(tmp_path)
    with opened(tmp_path) as caller:
        caller.finish("last")
        shutil.copytree(tmp_path, tmp_path / "copy")
    assert (tmp_path / "copy" / f"{NAME}-wal").stat().st_size > 5000
    write_at(tmp_path / "copy" / f"{NAME}-wal", at, b"\xff" * 100)
    with opened(tmp_path / "copy") as caller:
        assert caller.has("r0", "r39", "last") == ["r0", "r39"]
        caller.finish("a")
        assert caller.has("a") == ["a"]


# ── a disk that fails ────────────────────────────────────────────────────────────────────────────


def limit_pages(caller: Caller, num_more: int) -> None:
    """Let the file grow by so many pages and no more; SQLite says then that the disk is full."""
    store = caller.store
    assert isinstance(store, SqliteStore)
    (num_pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {num_pages + num_more}")


def test_a_full_disk_refuses_what_is_new_and_keeps_what_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as caller:
        caller.create("x", "i")
        caller.finish("a", out="o")
        caller.begin("b", parent="a", new="j", link=caller.link("x"))
        limit_pages(caller, 2)
        for _ in range(2):
            with pytest.raises(StoreFaultError) as caught:
                caller.finish("b", body="x" * 100_000, out="u")
            assert str(caught.value) == "The store could not read or write its file."
        assert [it.response_id for it in caller.store.list_running()] == ["b"]
        assert caller.items("x") == ["i"]
        assert caller.found("j", "u") == []
        limit_pages(caller, 1000)
        caller.finish("b", body="x" * 100_000, out="u")
        assert caller.history("b") == ["o", "j", "u"]
        assert caller.items("x") == ["i", "j", "u"]
    assert "full" in caplog.text
    with opened(tmp_path) as caller:
        assert caller.history("b") == ["o", "j", "u"]


FULL = """
import resource, sys
from pathlib import Path
from stores.errors import StoreFaultError
from stores.types import Bounds, StoreBounds
from tests.stores.sqlite_files import opened
from tests.stores.under_test import ManualClock, PLENTY
clock = ManualClock()
bounds = StoreBounds(Bounds(1000, 10**9, 10), PLENTY)
with opened(Path(sys.argv[1]), bounds, clock) as caller:
    caller.finish("old")
    clock.now_s = 5
    caller.finish("young", out="o")
    caller.store.list_running()
    resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, resource.RLIM_INFINITY))
    try:
        caller.finish("large", body="x" * 100_000)
    except StoreFaultError:
        print("refused")
    clock.now_s = 10
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    print(caller.has("old", "young", "large"), caller.history("young"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    caller.finish("new")
    print(caller.has("old", "young", "large", "new"))
"""


def test_what_is_there_can_be_read_where_nothing_can_be_written(tmp_path: Path) -> None:
    with running_python(FULL, tmp_path) as process:
        out, _ = process.communicate(timeout=60)
    assert out.splitlines() == ["refused", "['young'] ['o']", "['young', 'new']"]
    with opened(tmp_path) as caller:
        assert caller.has("old", "young", "large", "new") == ["young", "new"]


def test_a_store_that_is_closed_fails(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / NAME, MANY, ManualClock())
    store.finish(make_record("a"))
    store.close()
    store.close()
    with pytest.raises(StoreFaultError):
        store.get("a", "alice")
    with pytest.raises(StoreFaultError):
        store.finish(make_record("b"))


def test_a_file_that_is_damaged_under_a_running_store_asks_for_a_new_start(tmp_path: Path) -> None:
    fill(tmp_path)
    with opened(tmp_path) as caller:
        store = caller.store
        assert isinstance(store, SqliteStore)
        store.check()
        store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        write_garbage(tmp_path / NAME)
        store._connection.execute("PRAGMA shrink_memory").fetchall()
        with pytest.raises(StoreFaultError):
            caller.store.get("r7", "alice")
        with pytest.raises(StoreFaultError, match="data_folder"):
            store.check()
    with opened(tmp_path) as caller:
        assert caller.store.get("r7", "alice") is None


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_that_is_taken_away_under_a_running_store_asks_for_a_new_start(
    tmp_path: Path, is_replaced: bool
) -> None:
    fill(tmp_path)
    with opened(tmp_path) as caller:
        store = caller.store
        assert isinstance(store, SqliteStore)
        store.check()
        (tmp_path / NAME).rename(tmp_path / "elsewhere")
        if is_replaced:
            (tmp_path / NAME).touch()
        with pytest.raises(StoreFaultError, match="taken away"):
            store.check()
