"""The records of the store's benchmark, and the tables that it prints."""

from pathlib import Path

import pytest

from benchmarks.store import (
    Calls,
    Space,
    Times,
    measure_growth,
    repeat,
    to_calls_table,
    to_space_table,
)
from benchmarks.store_records import as_begun, make_record


@pytest.mark.parametrize("num_bytes", [4000, 20_000, 1_000_000])
def test_a_record_has_about_the_size_that_was_asked_for(num_bytes: int) -> None:
    record = make_record(3, num_bytes)
    assert 0.95 * num_bytes < record.size_bytes < 1.1 * num_bytes + 1500
    assert record == make_record(3, num_bytes)
    assert record.output != make_record(4, num_bytes).output


def test_a_record_that_begins_has_the_input_of_the_one_that_ends() -> None:
    ended = make_record(3, 4000, parent=2)
    begun = as_begun(ended)
    assert (begun.status, begun.output) == ("in_progress", ())
    assert (begun.input, begun.parent_id) == (ended.input, ended.parent_id)


def test_a_file_grows_by_the_turn_and_not_by_the_chain(tmp_path: Path) -> None:
    growth = measure_growth(tmp_path, 20_000)
    assert sum(growth[40:]) < 1.2 * sum(growth[5:15])


async def test_each_number_is_done_once() -> None:
    done = []

    async def work(index: int) -> float:
        done.append(index)
        return float(index)

    assert sorted(await repeat(work, range(10), 3)) == list(map(float, range(10)))
    assert sorted(done) == list(range(10))


def test_the_tables_have_a_row_a_store_and_the_ratio_once() -> None:
    each_ms: Times = {"roomy-sqlite": (2.0, 4.0), "roomy-memory": (1.0, 2.0)}
    table = to_calls_table([Calls("put", 20_000, 8, each_ms)])
    assert "| put | 20,000 | 8 | sqlite | 3.00 | 3.90 | 3.98 | 2.00 |" in table
    assert "| put | 20,000 | 8 | memory | 1.50 | 1.95 | 1.99 | – |" in table
    mib = 1 << 20
    space = Space("tight-memory", 64 * mib, 9, 5, 60 * mib, 100 * mib, 170 * mib, 0, 0)
    assert "| memory | 64 | 9 | 5 | 60.0 | – | – | 100.0 | 170.0 |" in to_space_table([space])
