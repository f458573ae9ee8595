"""Which work the next step does: pure bookkeeping of ids and token counts, no MLX, no clock.

A sequence goes through three places:

    waiting ──admit──▶ prefilling ──start──▶ decoding ──remove──▶ gone
       ▲                   │                    │
       └──────preempt──────┴────────────────────┘

Waiting is first come, first served. At most `max_running` sequences are in the two later places.
Only one sequence prefills at a time, by at most `chunk_tokens` tokens a step, so every step that
serves a long prompt also gives each decoding sequence its token: an arriving prompt delays the
others by one chunk, never by the whole prompt. Prompts of different length never pad each other.

All but a prompt's last token are prefilled; the last one is fed by `start`, whose forward pass
yields the first sampled token. So a prompt of one token needs no chunk at all.

KV caches have a budget in bytes. Nobody knows how long an answer gets, so what a sequence may
need at most is not reserved: it is admitted where its prompt and some more tokens fit beside the
others. When the caches outgrow the budget all the same, the sequence that came last is preempted:
its cache is freed and it goes back to the head of the queue, to be prefilled again with all the
tokens that it has by then. The one that came first is never preempted, so there is always progress.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

# How many tokens a batch can grow by after an admission before anyone has to be preempted.
HEADROOM_TOKENS = 256

# Bytes of the KV caches of so many rows that are all as long as the longest, in tokens.
CacheBytes = Callable[[int, int], int]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Positions `begin` to `end` (exclusive) of one sequence's tokens."""

    generation_id: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One step: `preempted` lose their caches, the decode batch advances if `decodes`, then the
    chunk is prefilled, then `start` joins the batch."""

    preempted: tuple[str, ...]
    decodes: bool
    chunk: Chunk | None
    start: str | None

    @property
    def is_idle(self) -> bool:
        return not self.decodes and self.chunk is None and self.start is None


@dataclass(slots=True)
class _Sequence:
    generation_id: str
    num_tokens: int
    num_prefilled: int = 0


class Scheduler:
    """Owns the places; the caller reports what arrives (`submit`) and what leaves (`remove`)."""

    def __init__(
        self, max_running: int, chunk_tokens: int, cache_bytes: CacheBytes, budget_bytes: int
    ) -> None:
        self._max_running = max_running
        self._chunk_tokens = chunk_tokens
        self._cache_bytes = cache_bytes
        self.budget_bytes = budget_bytes
        self._waiting: deque[_Sequence] = deque()
        self._prefilling: _Sequence | None = None
        self._decoding: dict[str, _Sequence] = {}

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        return len(self._decoding) + (self._prefilling is not None)

    @property
    def cache_bytes(self) -> int:
        """What the KV caches of all running sequences take by now."""
        return self._measure(())

    def is_waiting(self, generation_id: str) -> bool:
        """Whether nothing of a sequence is in the model: not yet admitted, or preempted."""
        return any(waiting.generation_id == generation_id for waiting in self._waiting)

    def submit(self, generation_id: str, num_prompt_tokens: int) -> None:
        """Queue a sequence whose prompt has at least one token."""
        self._waiting.append(_Sequence(generation_id, num_prompt_tokens))

    def remove(self, generation_id: str) -> None:
        """Take a sequence out of whatever place it is in."""
        self._decoding.pop(generation_id, None)
        if self._prefilling is not None and self._prefilling.generation_id == generation_id:
            self._prefilling = None
        self._waiting = deque(s for s in self._waiting if s.generation_id != generation_id)

    def schedule(self) -> Plan:
        """Plan one step and assume that it will be carried out."""
        preempted = self._preempt()
        decodes = bool(self._decoding)
        for sequence in self._decoding.values():
            sequence.num_tokens += 1
        self._admit()
        prompt = self._prefilling
        if prompt is None:
            return Plan(preempted, decodes, None, None)
        chunk = self._next_chunk(prompt)
        if prompt.num_prefilled < prompt.num_tokens - 1:
            return Plan(preempted, decodes, chunk, None)
        self._prefilling = None
        self._decoding[prompt.generation_id] = prompt
        return Plan(preempted, decodes, chunk, prompt.generation_id)

    def _preempt(self) -> tuple[str, ...]:
        """Send the latest comers back to the queue until what runs can take another token."""
        preempted = []
        while self.num_running > 1 and self._measure((), growth=1) > self.budget_bytes:
            latest = self._prefilling or self._decoding[next(reversed(self._decoding))]
            self.remove(latest.generation_id)
            latest.num_prefilled = 0
            self._waiting.appendleft(latest)
            preempted.append(latest.generation_id)
        return tuple(preempted)

    def _admit(self) -> None:
        if self._prefilling is not None or not self._waiting:
            return
        if len(self._decoding) >= self._max_running:
            return
        first = self._waiting[0]
        if not self._decoding or self._measure((first,), HEADROOM_TOKENS) <= self.budget_bytes:
            self._prefilling = self._waiting.popleft()

    def _measure(self, joining: tuple[_Sequence, ...], growth: int = 0) -> int:
        """Bytes of the caches if these join and the longest row grows; a prompt counts as a row."""
        rows = [*self._decoding.values(), *joining]
        if self._prefilling is not None:
            rows.append(self._prefilling)
        if not rows:
            return 0
        return self._cache_bytes(len(rows), max(row.num_tokens for row in rows) + growth)

    def _next_chunk(self, prompt: _Sequence) -> Chunk | None:
        begin = prompt.num_prefilled
        prompt.num_prefilled = min(begin + self._chunk_tokens, prompt.num_tokens - 1)
        if prompt.num_prefilled == begin:
            return None
        return Chunk(prompt.generation_id, begin, prompt.num_prefilled)
