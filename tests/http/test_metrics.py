"""Metrics: each engine's own numbers, whatever another model does."""

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

from deployments.errors import UnavailableError
from deployments.service import models
from engine.types import GenerationStarted
from tests.support.scripted import AwayEngine
from tests.support.serving import Served, playing, serving


async def read(served: Served) -> dict[tuple[str, str], float]:
    """The page's gauges by name and model."""
    reply = await served.http.get("/metrics")
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {
        (sample.name, sample.labels["model_name"]): sample.value
        for family in text_string_to_metric_families(reply.text)
        for sample in family.samples
        if family.type == "gauge"
    }


async def test_a_generation_is_seen_while_it_runs() -> None:
    engine = playing(GenerationStarted(5), asyncio.Event())
    ask = {"model": "echo", "input": "Hi"}
    async with serving(engine) as served:
        assert (await read(served))["vllm:num_requests_running", "scripted"] == 0
        waiting = asyncio.create_task(served.http.post("/v1/responses", json=ask))
        await engine.held.wait()
        assert (await read(served))["vllm:num_requests_running", "scripted"] == 1
        await engine.abort(engine.requests[0].generation_id)
        await waiting
        assert (await read(served))["vllm:num_requests_running", "scripted"] == 0


@pytest.mark.parametrize("error", [UnavailableError("The model is away."), None])
async def test_a_model_that_is_away_neither_fails_nor_holds_up_the_page(
    error: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "ANSWER_S", 0)
    away = AwayEngine(lambda _: (), error=error)
    async with serving(playing(), away) as served:
        gauges = await read(served)
    assert gauges["antiphon:model_up", "scripted"] == 1
    assert gauges["antiphon:model_up", ""] == 0
    assert ("vllm:num_requests_running", "scripted") in gauges
    assert ("vllm:num_requests_running", "") not in gauges


async def test_metrics_are_under_no_version() -> None:
    async with serving(playing()) as served:
        assert (await served.http.get("/v1/metrics")).status_code == 404
        assert (await served.http.post("/metrics")).status_code == 405
