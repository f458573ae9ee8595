"""The page of metrics, read back by Prometheus's own parser."""

import re

from prometheus_client.parser import text_string_to_metric_families

from deployments.wire.metrics import CONTENT_TYPE, ModelMetrics, write_metrics
from engine.types import EngineStats

STATS = EngineStats(
    engine_id="e1",
    is_alive=True,
    running=1,
    waiting=2,
    cache_bytes=3,
    cache_budget_bytes=12,
    admitted=4,
    refused=5,
    finished_by_stop=6,
    finished_by_length=7,
    aborted=8,
    failed=9,
    preempted=10,
    steps=11,
    step_s=12.5,
    prompt_tokens=13,
    output_tokens=14,
    max_abort_steps=15,
)


def read(*models: ModelMetrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The page's samples by name and labels; each must stand once."""
    samples = [
        ((sample.name, tuple(sorted(sample.labels.items()))), sample.value)
        for family in text_string_to_metric_families(write_metrics(models).decode())
        for sample in family.samples
    ]
    assert len(dict(samples)) == len(samples)
    return dict(samples)


def test_each_number_of_a_replica_has_its_name() -> None:
    of = (("engine", "e1"), ("model_name", "m"))
    success = "vllm:request_success_total"
    assert read(ModelMetrics("app", "m", True, [STATS])) == {
        ("antiphon:model_up", (("application", "app"), ("model_name", "m"))): 1,
        (success, (of[0], ("finished_reason", "stop"), of[1])): 6,
        (success, (of[0], ("finished_reason", "length"), of[1])): 7,
        (success, (of[0], ("finished_reason", "abort"), of[1])): 8,
        ("vllm:num_requests_running", of): 1,
        ("vllm:num_requests_waiting", of): 2,
        ("vllm:kv_cache_usage_perc", of): 0.25,
        ("vllm:prompt_tokens_total", of): 13,
        ("vllm:generation_tokens_total", of): 14,
        ("vllm:num_preemptions_total", of): 10,
        ("antiphon:kv_cache_bytes", of): 3,
        ("antiphon:kv_cache_budget_bytes", of): 12,
        ("antiphon:requests_admitted_total", of): 4,
        ("antiphon:requests_refused_total", of): 5,
        ("antiphon:requests_cancelled_total", of): 8,
        ("antiphon:requests_failed_total", of): 9,
        ("antiphon:engine_steps_total", of): 11,
        ("antiphon:engine_step_seconds_total", of): 12.5,
        ("antiphon:engine_abort_steps_max", of): 15,
    }


def test_a_name_that_ends_in_total_is_a_counter_and_any_other_a_gauge() -> None:
    page = write_metrics([ModelMetrics("app", "m", True, [STATS])]).decode()
    types = dict(re.findall("^# TYPE (.*) (.*)$", page, re.MULTILINE))
    assert types == {name: "counter" if name.endswith("_total") else "gauge" for name in types}
    assert len(types) == 17


def test_replicas_are_told_apart_by_their_engine() -> None:
    replicas = [EngineStats("e1", True, running=1), EngineStats("e2", True, running=2)]
    samples = read(ModelMetrics("app", "m", True, replicas))
    assert [
        samples["vllm:num_requests_running", (("engine", engine), ("model_name", "m"))]
        for engine in ("e1", "e2")
    ] == [1, 2]


def test_a_model_that_is_away_is_down_and_has_no_other_number() -> None:
    assert read(ModelMetrics("app", "", False, [])) == {
        ("antiphon:model_up", (("application", "app"), ("model_name", ""))): 0
    }


def test_a_model_may_have_any_printable_name() -> None:
    name = 'qwen3:14b "q4" \\ \\n {a="b"} modèle 🙂,#'
    samples = read(ModelMetrics("app", name, True, [STATS]))
    assert samples["vllm:num_requests_waiting", (("engine", "e1"), ("model_name", name))] == 2


def test_a_cache_without_a_budget_is_not_in_use() -> None:
    samples = read(ModelMetrics("app", "m", True, [EngineStats("e1", True)]))
    assert samples["vllm:kv_cache_usage_perc", (("engine", "e1"), ("model_name", "m"))] == 0


def test_without_a_model_the_page_has_no_number() -> None:
    assert read() == {}


def test_the_content_type_has_the_formats_version() -> None:
    assert CONTENT_TYPE == "text/plain; version=0.0.4; charset=utf-8"
