"""What the engine hands over to its readers, and when: pure, the clock is an argument."""

from dataclasses import replace

from engine.errors import EngineError
from engine.types import EngineEvent, TextDelta

Emitted = tuple[str, EngineEvent | EngineError]


class Outbox:
    """Collects events between two hand-overs, each of which costs every process on the way.

    A generation's first text, its end and its errors go at once. Other text waits for more, at
    most `hold_s` seconds: so it goes at the end of a step if the next one may take it past that.
    Texts of one generation that wait together become one.
    """

    def __init__(self, hold_s: float) -> None:
        self._hold_s = hold_s
        self._items: dict[str, list[EngineEvent | EngineError]] = {}
        self._streaming: set[str] = set()
        self._is_urgent = False
        self._since_s = 0.0

    def add(self, emitted: list[Emitted], now_s: float) -> None:
        """Take events in, in the order of each generation."""
        if emitted and not self._items:
            self._since_s = now_s
        for generation_id, item in emitted:
            items = self._items.setdefault(generation_id, [])
            if not isinstance(item, TextDelta):
                self._is_urgent = True
                self._streaming.discard(generation_id)
                items.append(item)
            elif items and isinstance(last := items[-1], TextDelta):
                items[-1] = join(last, item)
            else:
                items.append(item)
                self._is_urgent = self._is_urgent or generation_id not in self._streaming
                self._streaming.add(generation_id)

    def take(self, now_s: float, next_step_s: float) -> list[Emitted]:
        """All that waits, if it should go now; `next_step_s` is when it could go else."""
        is_due = self._is_urgent or now_s + next_step_s - self._since_s > self._hold_s
        if not self._items or not is_due:
            return []
        taken = [(name, item) for name, items in self._items.items() for item in items]
        self._items = {}
        self._is_urgent = False
        return taken


def join(earlier: TextDelta, later: TextDelta) -> TextDelta:
    """Two texts in a row as one."""
    return replace(
        later, text=earlier.text + later.text, logprobs=earlier.logprobs + later.logprobs
    )
