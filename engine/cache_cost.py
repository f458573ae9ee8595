"""What the KV caches of a batch take: arithmetic over sizes that were measured once, no MLX."""

from bisect import bisect_right
from dataclasses import dataclass
from functools import partial

STEP_TOKENS = 256  # mlx-lm's caches grow by so many tokens at a time
MAX_CHUNK_TOKENS = 512  # the longest chunk in which a prompt is prefilled
UNBOUNDED_TOKENS = 2**62  # a row of a model whose cache never outgrows the budget


@dataclass(frozen=True, slots=True)
class CacheCost:
    """Bytes that one row of a batch takes in the KV caches of all layers.

    token_bytes: a token, in the caches that hold every token.
    windows: tokens that a sliding window holds, and the bytes of a token in all such windows.
    row_bytes: the recurrent states, which have one size however long the row is.
    """

    token_bytes: int
    windows: tuple[tuple[int, int], ...] = ()
    row_bytes: int = 0

    def batch_bytes(self, num_rows: int, num_tokens: int) -> int:
        """At most so many bytes hold `num_rows` rows of which the longest has `num_tokens` tokens.

        Every row is padded to the longest, and its caches have room for up to a step of tokens to
        come. One of the rows may be a prompt in prefill, whose windows hold its last chunk too.
        """
        if num_rows == 0:
            return 0
        grown = num_tokens + STEP_TOKENS - 1
        row = self.token_bytes * grown + self.row_bytes
        chunk = 0
        for window, token_bytes in self.windows:
            row += token_bytes * min(window, grown)
            chunk += token_bytes * min(MAX_CHUNK_TOKENS, max(0, num_tokens - window))
        return num_rows * row + chunk

    def longest(self, budget_bytes: int) -> int:
        """The most tokens that a row alone can have; 0 if none, `UNBOUNDED_TOKENS` if any many."""
        lengths = range(1, UNBOUNDED_TOKENS + 1)
        return bisect_right(lengths, budget_bytes, key=partial(self.batch_bytes, 1))
