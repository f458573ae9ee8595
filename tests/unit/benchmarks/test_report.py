"""What rounds amount to, and how it is shown."""

import pytest

from benchmarks.exchange import Exchange
from benchmarks.report import Round, Summary, percentile, summarize, to_ratio, to_report


def make_exchange(
    *,
    error: str | None = None,
    ttft_s: float | None = 0.5,
    gaps_s: tuple[float, ...] = (0.1, 0.3),
    output_tokens: int = 10,
    is_estimate: bool = False,
    cached_tokens: int = 0,
) -> Exchange:
    return Exchange(error, ttft_s, gaps_s, output_tokens, is_estimate, 20, cached_tokens)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([], 50, None),
        ([7], 95, 7),
        ([3, 1, 2], 50, 2),
        ([1, 2], 50, 1.5),
        ([0, 10, 20, 30, 40], 95, 38),
        ([0, 10, 20], 0, 0),
        ([0, 10, 20], 100, 20),
    ],
)
def test_a_percentile_lies_between_its_neighbours(
    values: list[float], percent: float, expected: float | None
) -> None:
    assert percentile(values, percent) == pytest.approx(expected)


def test_a_summary_is_over_all_rounds_of_a_server_and_number_of_clients() -> None:
    long = make_exchange(gaps_s=tuple(range(20)))
    short = make_exchange(ttft_s=1.5, gaps_s=(20,), output_tokens=4, cached_tokens=3)
    rounds = [
        Round("ours", 1, 2.0, (short,)),
        Round("theirs", 1, 9.0, (make_exchange(),)),
        Round("ours", 1, 2.0, (long,)),
    ]
    assert summarize(rounds, max_tokens=10)[0] == Summary(
        server="ours",
        clients=1,
        tokens_per_s=3.5,
        slowest_tokens_per_s=2.0,
        fastest_tokens_per_s=5.0,
        ttft_p50_s=1.0,
        ttft_p95_s=1.45,
        gap_p50_s=10,
        gap_p95_s=19,
        gap_max_s=20,
        num_requests=2,
        num_short=1,
        num_estimated=0,
        prompt_tokens=40,
        cached_tokens=3,
        errors={},
    )


def test_summaries_come_by_clients_and_then_by_server() -> None:
    rounds = [
        Round(server, clients, 1.0, (make_exchange(),) * clients)
        for clients in (4, 1)
        for server in ("b", "a")
    ]
    order = [(s.clients, s.server) for s in summarize(rounds, max_tokens=10)]
    assert order == [(4, "b"), (4, "a"), (1, "b"), (1, "a")]


def test_a_failed_request_costs_time_and_gives_nothing_else() -> None:
    failed = make_exchange(error="HTTP 503: busy", ttft_s=9, gaps_s=(9,), output_tokens=9)
    (summary,) = summarize([Round("ours", 2, 2.0, (failed, make_exchange()))], max_tokens=10)
    assert (summary.tokens_per_s, summary.fastest_tokens_per_s) == (5.0, 5.0)
    assert (summary.ttft_p95_s, summary.gap_max_s) == (0.5, 0.3)
    assert (summary.num_requests, summary.errors) == (2, {"HTTP 503: busy": 1})


def test_a_server_that_only_fails_has_no_figures_and_breaks_none() -> None:
    failed = make_exchange(error="ConnectError: refused", ttft_s=None, gaps_s=())
    rounds = [Round("ours", 1, 0.0, (failed,)), Round("theirs", 1, 1.0, (make_exchange(),))]
    assert to_report(summarize(rounds, max_tokens=10)).splitlines()[2:] == [
        "| 1 | ours | 0.0 | 0.0–0.0 | – | – | – | – | – | 1/1 |",
        "| 1 | theirs | 10.0 | 10.0–10.0 | 500 | 500 | 200 | 290 | 300 | 0/1 |",
        "",
        "| clients | ratio | tokens/s | TTFT p50 | TTFT p95 | gap p50 | gap p95 | gap max |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| 1 | theirs / ours | – | – | – | – | – | – |",
        "",
        "- ours, clients 1: 1 × ConnectError: refused",
    ]


def test_ratios_are_against_the_first_server_at_the_same_number_of_clients() -> None:
    slow, fast = make_exchange(ttft_s=1.0, gaps_s=(0.4,)), make_exchange(ttft_s=0.5, gaps_s=(0.1,))
    rounds = [
        Round("ours", 1, 2.0, (slow,)),
        Round("theirs", 1, 1.0, (fast,)),
        Round("ours", 2, 1.0, (fast, fast)),
        Round("theirs", 2, 2.0, (slow, slow)),
    ]
    report = to_report(summarize(rounds, max_tokens=10)).splitlines()
    assert report[-2:] == [
        "| 1 | theirs / ours | 2.00 | 0.50 | 0.50 | 0.25 | 0.25 | 0.25 |",
        "| 2 | theirs / ours | 0.50 | 2.00 | 2.00 | 4.00 | 4.00 | 4.00 |",
    ]


def test_one_server_is_compared_with_nothing() -> None:
    report = to_report(summarize([Round("ours", 1, 1.0, (make_exchange(),))], max_tokens=10))
    assert "ratio" not in report


def test_what_makes_figures_less_comparable_is_said() -> None:
    exchange = make_exchange(output_tokens=4, is_estimate=True, cached_tokens=3)
    report = to_report(summarize([Round("ours", 1, 1.0, (exchange,))], max_tokens=10)).splitlines()
    assert report[2].startswith("| 1 | ours | ~4.0 |")
    assert report[4:] == [
        "- ours, clients 1: 1 of 1 ended before the token limit",
        "- ours, clients 1: ~ no usage reported, so each piece of text counts as one token",
        "- ours, clients 1: 3 of 20 prompt tokens were cached",
    ]


def test_no_rounds_give_an_empty_table() -> None:
    assert len(to_report(summarize([], max_tokens=10)).splitlines()) == 2


@pytest.mark.parametrize(
    ("figure", "base", "expected"), [(3, 2, "1.50"), (None, 2, "–"), (3, None, "–"), (3, 0, "–")]
)
def test_a_ratio_needs_both_figures(
    figure: float | None, base: float | None, expected: str
) -> None:
    assert to_ratio(figure, base) == expected
