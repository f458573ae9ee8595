"""What a store in a file keeps across restarts, crashes and other bounds."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from stores import loading
from stores.types import Bounds, StoreBounds
from tests.stores.sqlite_files import (
    MANY,
    NAME,
    list_names,
    opened,
    read_line,
    running_python,
)
from tests.stores.under_test import (
    PLENTY,
    Caller,
    ManualClock,
    make_conversation,
    make_item,
    make_record,
)


def test_all_that_is_kept_outlives_the_process(tmp_path: Path) -> None:
    with opened(tmp_path) as caller:
        caller.finish("a", out="o", body="\ud83d")
        caller.finish("b", parent="a", new="i")
        caller.begin("c", parent="b", new="j", link=caller.link("x"))
        caller.create("y", "k l", metadata='{"é": ""}')
        running = caller.store.list_running()
        caller.store.delete("a", "alice")
    with opened(tmp_path) as caller:
        assert caller.store.get("b", "alice") == make_record("b", parent="a")
        assert caller.has("a") == []
        assert caller.inputs("c") == ["o", "i", "j"]
        assert caller.store.list_running() == running
        record = make_conversation("y", metadata='{"é": ""}')
        assert caller.store.get_conversation("y", "alice") == record
        assert caller.items("y") == ["k", "l"]


def test_what_ran_may_end_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as caller:
        caller.create("x", "i")
        caller.begin("a", new="i j", link=caller.link("x", num_read=1))
        caller.begin("b", new="i k", link=caller.link("x", num_read=1))
        caller.store.delete("b", "alice")
    with opened(tmp_path) as caller:
        caller.finish("b", out="u")
        (record,) = caller.store.list_running()
        caller.store.finish(replace(record, status="completed", output=(make_item("o"),)))
        assert caller.items("x") == ["i", "k", "u", "j", "o"]
        assert caller.inputs("a") == ["i", "j"]
        assert caller.has("a", "b") == ["a"]


def test_a_life_goes_on_across_a_restart(tmp_path: Path) -> None:
    clock, bounds = ManualClock(), replace(PLENTY, ttl_s=10)
    with opened(tmp_path, StoreBounds(bounds, bounds), clock) as caller:
        caller.finish("a", out="o")
        caller.create("x")
        clock.now_s = 5
        caller.finish("b")
        caller.append("x", "i")
    clock.now_s = 10
    with opened(tmp_path, StoreBounds(bounds, bounds), clock) as caller:
        assert caller.has("a", "b") == ["b"]
        assert caller.has_conversations("x") == ["x"]
        assert caller.found("o") == []
        clock.now_s = 15
        assert caller.has("b") == []
        assert caller.has_conversations("x") == []


def test_another_ttl_counts_from_when_a_record_was_put(tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path, MANY, clock) as caller:
        caller.finish("a")
        clock.now_s = 50
        caller.finish("b")
    clock.now_s = 100
    with opened(tmp_path, StoreBounds(replace(PLENTY, ttl_s=60), PLENTY), clock) as caller:
        assert caller.has("a", "b") == ["b"]


def test_a_clock_set_back_lets_no_record_live_for_ever(tmp_path: Path) -> None:
    clock, bounds = ManualClock(), StoreBounds(replace(PLENTY, ttl_s=10), PLENTY)
    clock.now_s = 1e9
    with opened(tmp_path, bounds, clock) as caller:
        caller.finish("a")
    clock.now_s = 5
    with opened(tmp_path, bounds, clock) as caller:
        assert caller.has("a") == ["a"]
        clock.now_s = 15
        assert caller.has("a") == []


def test_the_order_of_uses_goes_on_across_a_restart(tmp_path: Path) -> None:
    three = StoreBounds(replace(PLENTY, max_entries=3), replace(PLENTY, max_entries=3))
    with opened(tmp_path, three) as caller:
        for name in ("a", "b", "c"):
            caller.finish(name)
            caller.create(name)
        assert caller.has("b", "a") == ["b", "a"]
        assert caller.has_conversations("b", "a") == ["b", "a"]
    with opened(tmp_path, three) as caller:
        for name in ("d", "e"):
            caller.finish(name)
            caller.create(name)
        assert caller.has("a", "b", "c", "d", "e") == ["a", "d", "e"]
        assert caller.has_conversations("a", "b", "c", "d", "e") == ["a", "d", "e"]


def test_smaller_bounds_evict_at_the_start_and_the_file_shrinks(tmp_path: Path) -> None:
    with opened(tmp_path) as caller:
        for number in range(50):
            caller.finish(f"r{number}", body="x" * 20_000)
        caller.finish("large", body="x" * 200_000)
        caller.create("x", "i")
        caller.create("large", metadata="x" * 200_000)
    size_bytes = (tmp_path / NAME).stat().st_size
    small = Bounds(max_entries=3, max_bytes=100_000, ttl_s=0)
    with opened(tmp_path, StoreBounds(small, small)) as caller:
        assert caller.has("r46", "r47", "r48", "r49", "large") == ["r47", "r48", "r49"]
        assert caller.has_conversations("x", "large") == ["x"]
        assert (tmp_path / NAME).stat().st_size < size_bytes / 10


def test_bounds_of_no_entry_leave_nothing_but_what_conversations_get(tmp_path: Path) -> None:
    with opened(tmp_path) as caller:
        caller.finish("a", out="o")
        caller.begin("b", parent="a", new="i", link=caller.link("x"))
        caller.begin("c", parent="a", new="secret")
    none = replace(PLENTY, max_entries=0)
    with opened(tmp_path, StoreBounds(none, PLENTY)) as caller:
        assert caller.store.list_running() == ()
        assert caller.found("o") == []
        caller.finish("b", out="u")
        assert caller.items("x") == ["i", "u"]
    assert b"secret" not in (tmp_path / NAME).read_bytes()


def test_no_serial_is_used_again_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as caller:
        caller.create("x")
        old = caller.link("x")
        caller.store.delete_conversation("x", "alice")
    with opened(tmp_path) as caller:
        caller.create("x")
        assert caller.link("x").serial != old.serial
        caller.finish("a", link=old, out="o")
        assert caller.items("x") == []


def test_a_deleted_response_that_never_ended_is_waited_for_a_day(tmp_path: Path) -> None:
    clock, bounds = ManualClock(), StoreBounds(PLENTY, replace(PLENTY, ttl_s=10))
    with opened(tmp_path, bounds, clock) as caller:
        caller.create("x")
        caller.begin("a", link=caller.link("x"), new="i")
        caller.store.delete("a", "alice")
    clock.now_s = loading.LOST_AFTER_S
    with opened(tmp_path, bounds, clock) as caller:
        assert caller.has_conversations("x") == ["x"]
    clock.now_s += 1
    with opened(tmp_path, bounds, clock) as caller:
        assert caller.has_conversations("x") == []


def test_what_is_deleted_is_not_in_the_file(tmp_path: Path) -> None:
    with opened(tmp_path) as caller:
        kept = make_record("kept", body="kept " * 2000)
        caller.store.finish(kept)
        for number in range(20):
            text = f"secret{number} " * (40 * number + 1)
            item = make_item(f"i{number}", text)
            caller.store.finish(make_record("a", body=text))
            caller.store.finish(replace(make_record("b"), input=(item,), output=(item,)))
            caller.store.create_conversation(make_conversation("x", metadata=text), (item,))
            caller.begin("c", body=text)
            for name in ("a", "b", "c"):
                caller.store.delete(name, "alice")
            caller.store.delete_conversation("x", "alice")
    assert list_names(tmp_path) == [NAME]
    data = (tmp_path / NAME).read_bytes()
    assert b"secret" not in data and b"kept kept" in data


WRITE_FOR_EVER = """
import sys, time
from pathlib import Path
from tests.stores.sqlite_files import opened
from tests.stores.under_test import make_item, make_record
from dataclasses import replace

with opened(Path(sys.argv[1]), clock=time.time) as caller:
    number = int(sys.argv[2])
    while True:
        item = make_item(f"i{number}", f"{number} " * 3000)
        parent = f"r{number - 1}" if caller.has(f"r{number - 1}") else None
        record = replace(make_record(f"r{number}", parent=parent, body=item.body), output=(item,))
        caller.store.begin(replace(record, status="in_progress", output=()))
        caller.store.finish(record)
        print(number, flush=True)
        number += 1
"""


def test_each_record_that_was_acknowledged_outlives_a_kill(tmp_path: Path) -> None:
    number, chance = -1, random.Random(1)
    for _ in range(6):
        with running_python(WRITE_FOR_EVER, tmp_path, number + 1) as writer:
            for _ in range(chance.randrange(1, 60)):
                number = int(read_line(writer))
            writer.kill()
            while line := read_line(writer):
                number = int(line)
        with opened(tmp_path) as caller:
            check_whole(caller, number)
            # One more may have begun or ended that was not acknowledged: it ends and goes.
            caller.finish(f"r{number + 1}", status="cancelled")
            caller.store.delete(f"r{number + 1}", "alice")
    assert list_names(tmp_path) == [NAME]


def check_whole(caller: Caller, number: int) -> None:
    """All records up to that number are there, as they were written."""
    assert caller.history(f"r{number}") == [f"i{it}" for it in range(number + 1)]
    for it in range(number + 1):
        record = caller.store.get(f"r{it}", "alice")
        assert record is not None and record.body == f"{it} " * 3000


@pytest.mark.parametrize("close_first", [False, True])
def test_a_store_that_is_closed_stays_closed(tmp_path: Path, close_first: bool) -> None:
    with opened(tmp_path) as caller:
        caller.finish("a")
        if close_first:
            caller.store.close()
    with opened(tmp_path) as caller:
        assert caller.has("a") == ["a"]
