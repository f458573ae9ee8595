"""The page of `GET /metrics`, in Prometheus's text format.

Names with the prefix `vllm:` are vLLM's, where ours mean the same; those with `antiphon:` are ours.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from engine.types import EngineStats

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


@dataclass(frozen=True, slots=True)
class ModelMetrics:
    """One model: the Serve application that runs it, and the replicas that have answered.

    `name` is empty while the model has never shown its card.
    """

    application: str
    name: str
    is_up: bool
    replicas: Sequence[EngineStats]


@dataclass(frozen=True, slots=True)
class Series:
    """A number that each replica has; a name that ends in `_total` is a counter's."""

    name: str
    meaning: str
    value: Callable[[EngineStats], float]


def to_cache_share(stats: EngineStats) -> float:
    """The part of the KV cache's budget in use, from 0 to 1."""
    return stats.cache_bytes / stats.cache_budget_bytes if stats.cache_budget_bytes else 0.0


SERIES = (
    Series("vllm:num_requests_running", "Generations in the batch.", lambda it: it.running),
    Series("vllm:num_requests_waiting", "Generations in the queue.", lambda it: it.waiting),
    Series("vllm:kv_cache_usage_perc", "Part of the KV cache in use, 0 to 1.", to_cache_share),
    Series("vllm:prompt_tokens_total", "Tokens of prompts.", lambda it: it.prompt_tokens),
    Series("vllm:generation_tokens_total", "Tokens sampled.", lambda it: it.output_tokens),
    Series("vllm:num_preemptions_total", "Generations set back.", lambda it: it.preempted),
    Series("antiphon:kv_cache_bytes", "Bytes of the KV cache.", lambda it: it.cache_bytes),
    Series(
        "antiphon:kv_cache_budget_bytes",
        "Bytes that the KV cache may take.",
        lambda it: it.cache_budget_bytes,
    ),
    Series(
        "antiphon:requests_admitted_total",
        "Generations that got a place in the queue.",
        lambda it: it.admitted,
    ),
    Series(
        "antiphon:requests_refused_total",
        "Generations that found the queue full.",
        lambda it: it.refused,
    ),
    Series(
        "antiphon:requests_cancelled_total",
        "Generations that a client stopped or left.",
        lambda it: it.aborted,
    ),
    Series("antiphon:requests_failed_total", "Generations that failed.", lambda it: it.failed),
    Series("antiphon:engine_steps_total", "Turns of the engine's loop.", lambda it: it.steps),
    Series("antiphon:engine_step_seconds_total", "Seconds that they took.", lambda it: it.step_s),
    Series(
        "antiphon:engine_abort_steps_max",
        "Most turns that began before an abort had freed its row.",
        lambda it: it.max_abort_steps,
    ),
)


def write_metrics(models: Iterable[ModelMetrics]) -> bytes:
    """The whole page."""
    return generate_latest(Snapshot(tuple(models)))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What `prometheus_client` collects from: the numbers of one moment, in no registry."""

    models: tuple[ModelMetrics, ...]

    def collect(self) -> Iterator[Metric]:
        yield to_up(self.models)
        yield to_successes(self.models)
        for series in SERIES:
            yield to_family(series, self.models)


def to_up(models: Iterable[ModelMetrics]) -> Metric:
    family = GaugeMetricFamily(
        "antiphon:model_up",
        "1 while all replicas of the model answer and live.",
        labels=("application", "model_name"),
    )
    for model in models:
        family.add_metric((model.application, model.name), model.is_up)
    return family


def to_successes(models: Iterable[ModelMetrics]) -> Metric:
    family = CounterMetricFamily(
        "vllm:request_success_total",
        "Generations that came to an end, by its reason.",
        labels=("model_name", "engine", "finished_reason"),
    )
    for model in models:
        for stats in model.replicas:
            counts = (stats.finished_by_stop, stats.finished_by_length, stats.aborted)
            for reason, count in zip(("stop", "length", "abort"), counts, strict=True):
                family.add_metric((model.name, stats.engine_id, reason), count)
    return family


def to_family(series: Series, models: Iterable[ModelMetrics]) -> Metric:
    kind = CounterMetricFamily if series.name.endswith("_total") else GaugeMetricFamily
    family = kind(series.name, series.meaning, labels=("model_name", "engine"))
    for model in models:
        for stats in model.replicas:
            family.add_metric((model.name, stats.engine_id), series.value(stats))
    return family
