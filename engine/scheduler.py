"""Which work the next step does: pure bookkeeping of ids and token counts, no MLX, no clock.

A sequence goes through three places and never back:

    waiting ──admit──▶ prefilling ──start──▶ decoding ──remove──▶ gone

Waiting is first come, first served. At most `max_running` sequences are in the two later places.
Only one sequence prefills at a time, by at most `chunk_tokens` tokens a step, so every step that
serves a long prompt also gives each decoding sequence its token: an arriving prompt delays the
others by one chunk, never by the whole prompt. Prompts of different length never pad each other.

All but a prompt's last token are prefilled; the last one is fed by `start`, whose forward pass
yields the first sampled token. So a prompt of one token needs no chunk at all.
"""

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chunk:
    """Prompt positions `begin` to `end` (exclusive) of one sequence."""

    generation_id: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One step: the decode batch advances if `decodes`, then the chunk, then `start` joins it."""

    decodes: bool
    chunk: Chunk | None
    start: str | None

    @property
    def is_idle(self) -> bool:
        return not self.decodes and self.chunk is None and self.start is None


@dataclass(slots=True)
class _Prompt:
    generation_id: str
    num_tokens: int
    num_prefilled: int = 0


class Scheduler:
    """Owns the places; the caller reports what arrives (`submit`) and what leaves (`remove`)."""

    def __init__(self, max_running: int, chunk_tokens: int) -> None:
        self._max_running = max_running
        self._chunk_tokens = chunk_tokens
        self._waiting: deque[_Prompt] = deque()
        self._prefilling: _Prompt | None = None
        self._decoding: set[str] = set()

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        return len(self._decoding) + (self._prefilling is not None)

    def is_waiting(self, generation_id: str) -> bool:
        """Whether a sequence has not been admitted yet, so that nothing of it is in the model."""
        return any(prompt.generation_id == generation_id for prompt in self._waiting)

    def submit(self, generation_id: str, num_prompt_tokens: int) -> None:
        """Queue a sequence whose prompt has at least one token."""
        self._waiting.append(_Prompt(generation_id, num_prompt_tokens))

    def remove(self, generation_id: str) -> None:
        """Take a sequence out of whatever place it is in."""
        self._decoding.discard(generation_id)
        if self._prefilling is not None and self._prefilling.generation_id == generation_id:
            self._prefilling = None
        self._waiting = deque(p for p in self._waiting if p.generation_id != generation_id)

    def schedule(self) -> Plan:
        """Plan one step and assume that it will be carried out."""
        decodes = bool(self._decoding)
        self._admit()
        prompt = self._prefilling
        if prompt is None:
            return Plan(decodes, None, None)
        chunk = self._next_chunk(prompt)
        if prompt.num_prefilled < prompt.num_tokens - 1:
            return Plan(decodes, chunk, None)
        self._prefilling = None
        self._decoding.add(prompt.generation_id)
        return Plan(decodes, chunk, prompt.generation_id)

    def _admit(self) -> None:
        if self._prefilling is None and self._waiting and len(self._decoding) < self._max_running:
            self._prefilling = self._waiting.popleft()

    def _next_chunk(self, prompt: _Prompt) -> Chunk | None:
        begin = prompt.num_prefilled
        prompt.num_prefilled = min(begin + self._chunk_tokens, prompt.num_tokens - 1)
        if prompt.num_prefilled == begin:
            return None
        return Chunk(prompt.generation_id, begin, prompt.num_prefilled)
