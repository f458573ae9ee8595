"""The text of one generation as it may be shown: decoded, cut before a stop string, with the log
probabilities of the tokens behind it."""

from collections import deque
from dataclasses import dataclass, field

from engine.detokenizer import Detokenizer
from engine.sequence import SampledToken
from engine.stop_strings import StopStrings
from engine.types import SampledLogprob, TokenLogprob


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that may be shown now, and the log probabilities of the tokens that it completes."""

    text: str
    logprobs: tuple[SampledLogprob, ...] = ()


@dataclass(slots=True)
class OutputText:
    """Feed each sampled token, flush once at the end."""

    detokenizer: Detokenizer
    stops: StopStrings
    _num_decoded: int = 0
    _num_shown: int = 0
    _pending: deque[tuple[int, SampledLogprob]] = field(default_factory=deque)

    @property
    def is_stopped(self) -> bool:
        """Whether a stop string is complete: no token changes the text any more."""
        return self.stops.is_stopped

    def feed(self, token: SampledToken) -> Piece:
        """What a token lets out."""
        decoded = self.detokenizer.feed(token.token_id)
        self._num_decoded += len(decoded)
        if token.logprob is not None and not self.detokenizer.is_hidden(token.token_id):
            end = self._num_decoded + self.detokenizer.is_inside_character
            self._pending.append((end, self._to_logprob(token, token.logprob)))
        return self._show(self.stops.feed(decoded))

    def flush(self) -> Piece:
        """What is left at the end: an unfinished character, and text held back for a stop string.

        A stop string may even end in that character's U+FFFD.
        """
        if self.is_stopped:
            return Piece("")
        rest = self.detokenizer.flush()
        self._num_decoded += len(rest)
        text = self.stops.feed(rest)
        return self._show(text if self.is_stopped else text + self.stops.flush())

    def _show(self, text: str) -> Piece:
        if not text:
            return Piece("")
        self._num_shown += len(text)
        logprobs = []
        while self._pending and self._pending[0][0] <= self._num_shown:
            logprobs.append(self._pending.popleft()[1])
        return Piece(text, tuple(logprobs))

    def _to_logprob(self, token: SampledToken, logprob: float) -> SampledLogprob:
        to_bytes = self.detokenizer.to_bytes
        return SampledLogprob(
            TokenLogprob(to_bytes(token.token_id), logprob),
            tuple(TokenLogprob(to_bytes(token_id), value) for token_id, value in token.top),
        )
