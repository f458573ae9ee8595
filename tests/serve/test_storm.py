"""Abuse of a real cluster: nothing is left of it, nobody hangs, and the next is answered."""

from collections import Counter
from collections.abc import AsyncIterator

import httpx2
import psutil
import pytest

from benchmarks.soak import LEAVING_CLIENTS, Soak
from tests.support.server import Server

PLAIN, TOOLS = "smollm2-135m", "smollm2-135m-tools"
PLACES = 16 + 64  # of one replica: running and waiting
MAX_GROWTH_BYTES = 50e6


@pytest.fixture
async def soak(server: Server) -> AsyncIterator[Soak]:
    limits = httpx2.Limits(max_connections=1000, max_keepalive_connections=20)
    async with httpx2.AsyncClient(
        base_url=server.url, headers=server.headers, timeout=240, limits=limits, trust_env=False
    ) as http:
        yield Soak(http, PLAIN, max_tokens=2)


def count_resident_bytes(server: Server) -> int:
    """Memory of all replicas: engines, store and ingress."""
    pids = server.pids("ServeReplica:")
    assert len(pids) == 6
    return sum(psutil.Process(pid).memory_info().rss for pid in pids)


def check_engine_is_empty(server: Server, model: str) -> None:
    engine = server.engine(model)
    assert engine["vllm:num_requests_running"] == engine["vllm:num_requests_waiting"] == 0
    assert engine["antiphon:kv_cache_bytes"] == 0
    assert engine["antiphon:engine_abort_steps_max"] <= 1


async def test_a_storm_of_closed_connections_leaves_nothing_behind(
    server: Server, soak: Soak
) -> None:
    await soak.repeat(soak.leave_hastily, 50, 50)
    await soak.repeat(soak.leave_in_mid_stream, 20, LEAVING_CLIENTS)
    await soak.wait_idle()
    before, resident = server.engine(PLAIN), count_resident_bytes(server)
    hasty = await soak.repeat(soak.leave_hastily, 500, 50)
    leaving = await soak.repeat(soak.leave_in_mid_stream, 200, LEAVING_CLIENTS)
    await soak.wait_idle()
    assert sum(hasty.values()) == 500
    assert hasty.keys() <= {"closed", "429"}
    assert leaving == Counter(closed=200)
    check_engine_is_empty(server, PLAIN)
    after = server.engine(PLAIN)
    cancelled, admitted = (
        after[name] - before[name]
        for name in ("antiphon:requests_cancelled_total", "antiphon:requests_admitted_total")
    )
    assert 200 <= cancelled == admitted
    assert after["antiphon:requests_failed_total"] == before["antiphon:requests_failed_total"]
    assert count_resident_bytes(server) - resident < MAX_GROWTH_BYTES
    for model in (PLAIN, TOOLS):
        assert await Soak(soak.http, model, max_tokens=2).ask() == "200"


async def test_of_200_requests_at_once_as_many_as_have_a_place_are_answered(
    server: Server, soak: Soak
) -> None:
    before = server.engine(PLAIN)
    ends = await soak.repeat(soak.ask, 200, 200)
    assert ends.keys() <= {"200", "429"}
    assert PLACES <= ends["200"] < 200
    assert sum(ends.values()) == 200
    check_engine_is_empty(server, PLAIN)
    after = server.engine(PLAIN)
    assert (
        after["antiphon:requests_admitted_total"] - before["antiphon:requests_admitted_total"]
        == ends["200"]
    )
    assert (
        after["antiphon:requests_refused_total"] - before["antiphon:requests_refused_total"]
        == ends["429"]
    )
