"""What rounds of requests amount to: percentiles, sums, and Markdown tables of them. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.exchange import Exchange

NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Round:
    """One request of each of `clients` clients, all sent at once to one server.

    `wall_s` is the time in seconds from the first sending to the last end.
    """

    server: str
    clients: int
    wall_s: float
    exchanges: tuple[Exchange, ...]

    @property
    def tokens_per_s(self) -> float:
        """Output tokens of the requests that succeeded, over the time that all took."""
        tokens = sum(e.output_tokens for e in self.exchanges if e.error is None)
        return tokens / self.wall_s if self.wall_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Summary:
    """All rounds of one server at one number of clients; a figure that nothing gives is None.

    `tokens_per_s` is over all rounds together, `slowest` and `fastest` are of single rounds: their
    distance tells how noisy the machine was. `num_short` requests ended before the limit of tokens.
    """

    server: str
    clients: int
    tokens_per_s: float
    slowest_tokens_per_s: float
    fastest_tokens_per_s: float
    ttft_p50_s: float | None
    ttft_p95_s: float | None
    gap_p50_s: float | None
    gap_p95_s: float | None
    gap_max_s: float | None
    num_requests: int
    num_short: int
    num_estimated: int
    prompt_tokens: int
    cached_tokens: int
    errors: dict[str, int]


def percentile(values: Iterable[float], percent: float) -> float | None:
    """The value below which `percent` % lie, linear between neighbours; None of no values."""
    ordered = sorted(values)
    if not ordered:
        return None
    position = (len(ordered) - 1) * percent / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def summarize(rounds: Sequence[Round], max_tokens: int) -> list[Summary]:
    """One summary a number of clients and server, both in the order of their first round."""
    clients = dict.fromkeys(r.clients for r in rounds)
    servers = dict.fromkeys(r.server for r in rounds)
    groups = [
        [r for r in rounds if (r.clients, r.server) == (c, s)] for c in clients for s in servers
    ]
    return [summarize_group(group, max_tokens) for group in groups if group]


def summarize_group(rounds: Sequence[Round], max_tokens: int) -> Summary:
    """The summary of rounds of one server at one number of clients, at least one of them."""
    exchanges = [e for r in rounds for e in r.exchanges]
    good = [e for e in exchanges if e.error is None]
    ttfts_s = [e.ttft_s for e in good if e.ttft_s is not None]
    gaps_s = [gap for e in good for gap in e.gaps_s]
    wall_s = sum(r.wall_s for r in rounds)
    per_round = [r.tokens_per_s for r in rounds]
    return Summary(
        server=rounds[0].server,
        clients=rounds[0].clients,
        tokens_per_s=sum(e.output_tokens for e in good) / wall_s if wall_s > 0 else 0.0,
        slowest_tokens_per_s=min(per_round),
        fastest_tokens_per_s=max(per_round),
        ttft_p50_s=percentile(ttfts_s, 50),
        ttft_p95_s=percentile(ttfts_s, 95),
        gap_p50_s=percentile(gaps_s, 50),
        gap_p95_s=percentile(gaps_s, 95),
        gap_max_s=max(gaps_s, default=None),
        num_requests=len(exchanges),
        num_short=sum(e.output_tokens < max_tokens for e in good),
        num_estimated=sum(e.is_estimate for e in good),
        prompt_tokens=sum(e.prompt_tokens for e in good),
        cached_tokens=sum(e.cached_tokens for e in good),
        errors=dict(Counter(e.error for e in exchanges if e.error is not None)),
    )


def to_report(summaries: Sequence[Summary]) -> str:
    """Figures, ratios if there are two servers or more, and what a reader must know of them."""
    parts = [to_figures(summaries)]
    if len({s.server for s in summaries}) > 1:
        parts.append(to_ratios(summaries))
    notes = to_notes(summaries)
    if notes:
        parts.append("\n".join(notes))
    return "\n\n".join(parts)


def to_figures(summaries: Sequence[Summary]) -> str:
    head = "clients|server|tokens/s|by round|TTFT p50 ms|p95|gap p50 ms|p95|max|errors"
    rows = [
        [
            str(s.clients),
            s.server,
            f"{'~' if s.num_estimated else ''}{s.tokens_per_s:.1f}",
            f"{s.slowest_tokens_per_s:.1f}–{s.fastest_tokens_per_s:.1f}",
            *(
                NOTHING if seconds is None else f"{seconds * 1000:.0f}"
                for seconds in (s.ttft_p50_s, s.ttft_p95_s, s.gap_p50_s, s.gap_p95_s, s.gap_max_s)
            ),
            f"{sum(s.errors.values())}/{s.num_requests}",
        ]
        for s in summaries
    ]
    return to_table(head.split("|"), rows)


RATIOS: dict[str, Callable[[Summary], float | None]] = {
    "tokens/s": lambda s: s.tokens_per_s,
    "TTFT p50": lambda s: s.ttft_p50_s,
    "TTFT p95": lambda s: s.ttft_p95_s,
    "gap p50": lambda s: s.gap_p50_s,
    "gap p95": lambda s: s.gap_p95_s,
    "gap max": lambda s: s.gap_max_s,
}


def to_ratios(summaries: Sequence[Summary]) -> str:
    """Each server's figures as multiples of the first server's at the same number of clients."""
    first = summaries[0].server
    bases = {s.clients: s for s in summaries if s.server == first}
    rows = [
        [str(s.clients), f"{s.server} / {first}"]
        + [to_ratio(figure(s), figure(bases[s.clients])) for figure in RATIOS.values()]
        for s in summaries
        if s.server != first and s.clients in bases
    ]
    return to_table(["clients", "ratio", *RATIOS], rows)


def to_ratio(figure: float | None, base: float | None) -> str:
    return f"{figure / base:.2f}" if figure is not None and base else NOTHING


def to_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---:"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def to_notes(summaries: Sequence[Summary]) -> list[str]:
    """One line a fact that makes figures less comparable, and one an error."""
    notes = []
    for s in summaries:
        who = f"- {s.server}, clients {s.clients}:"
        if s.num_short:
            notes.append(f"{who} {s.num_short} of {s.num_requests} ended before the token limit")
        if s.num_estimated:
            notes.append(f"{who} ~ no usage reported, so each piece of text counts as one token")
        if s.cached_tokens:
            notes.append(f"{who} {s.cached_tokens} of {s.prompt_tokens} prompt tokens were cached")
        notes += [f"{who} {count} × {error}" for error, count in s.errors.items()]
    return notes
