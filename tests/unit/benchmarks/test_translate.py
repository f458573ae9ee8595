"""The benchmark of a delta's way runs, and tells a figure of every kind and every way."""

import pytest

from benchmarks.translate import KINDS, WAYS, main, time_batches, time_deltas


def test_it_tells_of_every_kind_and_every_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--deltas", "100", "--rounds", "1"]) == 0
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line]
    names = [row[0].removeprefix("| ") for row in rows if row[0] != "| ---:"]
    assert names == ["delta", *KINDS, "batch of one text delta", *WAYS]
    assert {len(row) for row in rows} == {4}


@pytest.mark.parametrize("kind", KINDS)
def test_every_delta_of_a_kind_becomes_bytes(kind: str) -> None:
    assert time_deltas(KINDS[kind](100)) > 0


@pytest.mark.parametrize("way", WAYS)
def test_every_way_comes_to_its_end(way: str) -> None:
    assert time_batches(WAYS[way], 100) > 0


def test_a_profile_is_told_in_place_of_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--deltas", "100", "--profile", "text"]) == 0
    assert "(write)" in capsys.readouterr().out
