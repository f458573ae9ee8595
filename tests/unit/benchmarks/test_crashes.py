"""How the crash run reads a store's file, and what its report and its verdict say."""

import time
from pathlib import Path

from benchmarks.crash_ledger import Kept, Ledger
from benchmarks.crashes import Kill, Outcome, read_file, to_json, to_report
from deployments.resource.response import RequestEcho, Response, StoredResponse
from deployments.service.records import to_record
from deployments.store_app import FILE_NAME
from stores.sqlite import SqliteStore
from stores.types import Bounds, ResponseRecord, StoreBounds

BOUNDS = Bounds(10, 1_000_000, 0)


def make(response_id: str, tag: str, is_running: bool = False) -> ResponseRecord:
    status = "in_progress" if is_running else "completed"
    echo = RequestEcho(temperature=1.0, top_p=1.0, is_stored=True, metadata={"tag": tag})
    response = Response(response_id, 1_700_000_000, status, "m")  # type: ignore[arg-type]
    return to_record(StoredResponse(response, echo), "owner")


def test_the_file_of_a_store_is_read_without_a_change(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    store = SqliteStore(path, StoreBounds(BOUNDS, BOUNDS), time.time)
    store.begin(make("resp_1", "1", is_running=True))
    store.finish(make("resp_1", "1"))
    store.begin(make("resp_2", "2", is_running=True))
    store.close()
    before = path.read_bytes()
    assert read_file(path) == ([Kept("resp_1", "1", "completed")], 1)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_report_has_a_row_a_kind_and_the_faults() -> None:
    kills = [Kill("store", 1.0, 5, ()), Kill("store", 3.0, 6, ("resp_1: gone",))]
    outcome = Outcome(Ledger(), kills, strangers=["resp_x: nobody asked for it"])
    report = to_report(outcome)
    assert "| store | 2 | 2.00 | 3.00 | 11 | 1 |" in report
    assert "| ingress | 0 | – | – | 0 | 0 |" in report
    assert "- strangers: 1" in report
    assert "resp_1: gone" in report
    assert "resp_x: nobody asked for it" in report
    assert '"resp_1: gone"' in to_json(outcome)


def test_one_fault_of_any_sort_is_not_well() -> None:
    assert Outcome(Ledger(), [Kill("store", 1.0, 5, ())]).is_well
    assert not Outcome(Ledger(), [Kill("store", 1.0, 5, ("gone",))]).is_well
    assert not Outcome(Ledger(), faults=["gone"]).is_well
    assert not Outcome(Ledger(), strangers=["who"]).is_well
    assert not Outcome(Ledger(), still_running=1).is_well
