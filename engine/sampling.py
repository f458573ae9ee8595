"""Picks the next token of every row in one call, each with its own parameters and random numbers.

What happens to a row's logits, in this order (the order of vLLM's and Hugging Face's samplers):

1. `logit_bias` is added;
2. penalties for tokens that the row has generated: logits above 0 are divided by
   `repetition_penalty` and those below multiplied (Keskar et al., 2019), then
   `presence_penalty` and `frequency_penalty` times the count are subtracted (OpenAI);
3. what a grammar forbids is taken out;
4. at temperature 0 the likeliest token is taken, else logits are divided by the temperature;
5. `min_p` takes out tokens less likely than that share of the likeliest, `top_k` all but the
   likeliest k, `top_p` all but the nucleus of the rest (Holtzman et al., 2020);
6. one of the remaining is drawn.

A draw depends on the row's seed and on how many it has drawn, on nothing else: neither on the other
rows nor on whether the row was stopped and begun again in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.backend import mx, to_python
from engine.types import SamplingParams

# Below this the likeliest token has all the mass, and dividing by it would leave float32's range.
GREEDY_BELOW = 1e-4
LOWEST_LOGPROB = -9999.0  # OpenAI's own value for a token that is next to impossible
SMALLEST = 1e-9  # stands for a `top_p` of 0, under which even the likeliest token would fall

# A cut by rank looks at so many of the likeliest tokens, found by selection: sorting a vocabulary
# takes longer than a small model's forward pass. Where they turn out too few, more are looked at,
# and at last all are sorted.
NUM_CANDIDATES, MORE_CANDIDATES = 1024, 8192


@dataclass(frozen=True, slots=True)
class SampledRow:
    """A row as the sampler needs it: `generated` are the tokens that it has drawn before."""

    params: SamplingParams
    key: tuple[int, int]
    generated: Sequence[int] = ()

    @property
    def is_greedy(self) -> bool:
        return self.params.temperature < GREEDY_BELOW

    def is_cut(self, vocab_size: int) -> bool:
        """Whether only tokens of the highest ranks may be drawn."""
        has_top_k = 0 < self.params.top_k < vocab_size
        return not self.is_greedy and (self.params.top_p < 1 or has_top_k)

    @property
    def has_penalties(self) -> bool:
        params = self.params
        return (
            params.presence_penalty != 0
            or params.frequency_penalty != 0
            or params.repetition_penalty != 1
        )


@dataclass(frozen=True, slots=True)
class Draw:
    """Tokens of one call, shape [rows]; those that the candidates did not suffice for are unsure.

    `is_sure` has one element for each of `cut_rows`, None where nothing was cut; `scaled` and
    `keys` are what those rows were drawn from.
    """

    tokens: mx.array
    cut_rows: tuple[int, ...] = ()
    is_sure: mx.array | None = None
    scaled: mx.array | None = None
    keys: mx.array | None = None


class BatchSampler:
    """The rows of a batch; they join by `extend` and leave by `filter`, as in the batch itself."""

    def __init__(self, rows: Sequence[SampledRow], vocab_size: int) -> None:
        self.vocab_size = vocab_size
        self._rows = list(rows)
        self._num_drawn = [len(row.generated) for row in rows]
        self._counts = self._make_counts()
        self._build()

    def extend(self, other: "BatchSampler") -> None:
        """Add the rows of another sampler after these."""
        if self._counts is not None or other._counts is not None:
            mine, theirs = (
                mx.zeros((len(sampler._rows), self.vocab_size))
                if sampler._counts is None
                else sampler._counts
                for sampler in (self, other)
            )
            self._counts = mx.concatenate([mine, theirs])
        self._rows += other._rows
        self._num_drawn += other._num_drawn
        self._build()

    def filter(self, keep: Sequence[int]) -> None:
        """Keep the rows at these places."""
        self._rows = [self._rows[row] for row in keep]
        self._num_drawn = [self._num_drawn[row] for row in keep]
        if not any(row.has_penalties for row in self._rows):
            self._counts = None
        elif self._counts is not None:
            self._counts = self._counts[mx.array(list(keep), dtype=mx.uint32)]
        self._build()

    def __call__(self, logits: mx.array, inputs: mx.array, allowed: mx.array | None) -> Draw:
        """Draw a token for each row.

        Shapes: logits [rows, vocabulary]; inputs [rows], the tokens whose logits these are;
        allowed [rows, vocabulary] of booleans, or None where no row has a grammar.
        """
        edited = self._edit(logits.astype(mx.float32), inputs)
        if allowed is not None:
            edited = mx.where(allowed, edited, -mx.inf)
        keys = self._take_keys()
        tokens = mx.argmax(edited, axis=-1)
        if not self._open_rows and not self._cut_rows:
            return Draw(tokens)
        scaled = edited / self._divisors
        if self._has_min_p:
            floor = scaled.max(axis=-1, keepdims=True) + self._log_min_p
            scaled = mx.where(scaled < floor, -mx.inf, scaled)
        if self._open_rows:
            drawn = draw_each(take(scaled, self._open_rows), take(keys, self._open_rows))
            tokens = put(tokens, self._open_rows, drawn)
        if not self._cut_rows:
            return Draw(tokens)
        scaled, keys = take(scaled, self._cut_rows), take(keys, self._cut_rows)
        drawn, is_sure = draw_cut(scaled, keys, self._top_k, self._top_p, NUM_CANDIDATES)
        tokens = put(tokens, self._cut_rows, drawn)
        return Draw(tokens, tuple(self._cut_rows), is_sure, scaled, keys)

    def settle(self, draw: Draw) -> mx.array:
        """The tokens of a draw, now that it can be waited for: unsure ones are drawn anew."""
        tokens, is_sure = draw.tokens, draw.is_sure
        places = list(range(len(draw.cut_rows)))
        for num_candidates in (MORE_CANDIDATES, self.vocab_size):
            known: list[bool] = to_python(is_sure) if is_sure is not None else []
            places = [place for place, is_known in zip(places, known, strict=False) if not is_known]
            if not places:
                break
            drawn, is_sure = draw_cut(
                take(draw.scaled, places),
                take(draw.keys, places),
                take(self._top_k, places),
                take(self._top_p, places),
                num_candidates,
            )
            tokens = put(tokens, [draw.cut_rows[place] for place in places], drawn)
        return tokens

    def _build(self) -> None:
        """Make the arrays that stay the same until a row joins or leaves."""
        params = [row.params for row in self._rows]
        drawing = [index for index, row in enumerate(self._rows) if not row.is_greedy]
        self._cut_rows = [row for row in drawing if self._rows[row].is_cut(self.vocab_size)]
        self._open_rows = [row for row in drawing if row not in self._cut_rows]
        self._divisors = column(
            1.0 if row.is_greedy else row.params.temperature for row in self._rows
        )
        self._has_min_p = any(p.min_p > 0 for p in params)
        self._log_min_p = column(np.log(p.min_p) if p.min_p > 0 else -np.inf for p in params)
        cut = [params[row] for row in self._cut_rows]
        self._top_k = column(p.top_k or self.vocab_size for p in cut)
        self._top_p = column(p.top_p for p in cut)
        self._bias = self._make_bias()
        if self._counts is not None:
            self._presence = column(p.presence_penalty for p in params)
            self._frequency = column(p.frequency_penalty for p in params)
            self._repetition = column(p.repetition_penalty for p in params)
        self._keys = np.array([row.key for row in self._rows], dtype=np.uint32).reshape(-1, 2)

    def _make_bias(self) -> mx.array | None:
        if not any(row.params.logit_bias for row in self._rows):
            return None
        bias = np.zeros((len(self._rows), self.vocab_size), dtype=np.float32)
        for index, row in enumerate(self._rows):
            for token_id, value in row.params.logit_bias:
                bias[index, token_id] = value
        return mx.array(bias)

    def _make_counts(self) -> mx.array | None:
        """How often each row has generated each token, but for the last, which comes as input."""
        if not any(row.has_penalties for row in self._rows):
            return None
        counts = np.zeros((len(self._rows), self.vocab_size), dtype=np.float32)
        for index, row in enumerate(self._rows):
            np.add.at(counts[index], list(row.generated[:-1]), 1)
        return mx.array(counts)

    def _edit(self, logits: mx.array, inputs: mx.array) -> mx.array:
        if self._bias is not None:
            logits = logits + self._bias
        if self._counts is None:
            return logits
        # The input of a row that has drawn nothing yet is the end of its prompt.
        is_generated = mx.array([float(number > 0) for number in self._num_drawn])
        self._counts = self._counts.at[mx.arange(len(self._rows)), inputs].add(is_generated)
        repeated = mx.where(logits > 0, logits / self._repetition, logits * self._repetition)
        logits = mx.where(self._counts > 0, repeated - self._presence, logits)
        return logits - self._frequency * self._counts

    def _take_keys(self) -> mx.array:
        keys = self._keys.copy()
        keys[:, 1] ^= np.array(self._num_drawn, dtype=np.uint32)
        self._num_drawn = [number + 1 for number in self._num_drawn]
        return mx.array(keys)


def column(values: object) -> mx.array:
    """A value a row, shape [rows, 1]."""
    return mx.array(list(values), dtype=mx.float32)[:, None]  # type: ignore[call-overload]


def take(array: mx.array | None, rows: Sequence[int]) -> mx.array:
    """The rows at these places; the array itself where these are all."""
    assert array is not None
    if len(rows) == array.shape[0]:
        return array
    return array[mx.array(list(rows), dtype=mx.uint32)]


def put(tokens: mx.array, rows: Sequence[int], drawn: mx.array) -> mx.array:
    """The tokens with those at some rows replaced."""
    if len(rows) == tokens.shape[0]:
        return drawn
    return mx.put_along_axis(tokens, mx.array(list(rows), dtype=mx.uint32), drawn, axis=0)


def draw_each(logits: mx.array, keys: mx.array) -> mx.array:
    """One index a row from softmax(logits): shapes [rows, n] and [rows, 2] to [rows]."""
    return mx.argmax(logits + to_gumbel(make_noise(keys, logits.shape[-1])), axis=-1)


def make_noise(keys: mx.array, vocab_size: int) -> mx.array:
    """A number in [0, 1) for each token of each row: shapes [rows, 2] to [rows, vocabulary].

    It belongs to the token's id, never to its rank: two tokens that are all but equally likely may
    change ranks when a batch adds up in another order, and the draw must not change with them.
    """
    return mx.vmap(lambda key: mx.random.uniform(shape=(vocab_size,), key=key))(keys)


def to_gumbel(noise: mx.array) -> mx.array:
    """Gumbel noise: the largest logit with it is a draw from their softmax (Gumbel, 1954)."""
    return -mx.log(-mx.log(noise))


def draw_cut(
    logits: mx.array, keys: mx.array, top_k: mx.array, top_p: mx.array, num_candidates: int
) -> tuple[mx.array, mx.array]:
    """Draw from the tokens of each row that `top_k` and `top_p` leave.

    A token stays while the mass before it, of those `top_k` leaves, is below `top_p`: the likeliest
    always does. Shapes: logits [rows, vocabulary], keys [rows, 2], top_k and top_p [rows, 1].
    Returns ids and whether each row's cut lies within its candidates, both of shape [rows].
    """
    ids = find_likeliest(logits, num_candidates)
    values = mx.take_along_axis(logits, ids, axis=-1)
    num_found = ids.shape[-1]
    mass = mx.exp(values - mx.logsumexp(logits, axis=-1, keepdims=True))
    ranks = mx.arange(num_found)[None, :]
    mass = mx.where(ranks < top_k, mass, 0.0)
    has_all = mx.array(num_found == logits.shape[-1]) | (top_k <= num_found)
    total = mx.where(has_all, mass.sum(axis=-1, keepdims=True), 1.0)
    sums = mx.cumsum(mass, axis=-1)
    wanted = mx.maximum(top_p, SMALLEST) * total
    kept = (ranks < top_k) & ((top_p >= 1) | (sums - mass < wanted))
    is_sure = has_all | ((top_k >= logits.shape[-1]) & (sums[:, -1:] >= wanted))
    noise = mx.take_along_axis(make_noise(keys, logits.shape[-1]), ids, axis=-1)
    places = mx.argmax(mx.where(kept, values + to_gumbel(noise), -mx.inf), axis=-1)
    return mx.take_along_axis(ids, places[:, None], axis=-1)[:, 0], is_sure[:, 0]


def find_likeliest(logits: mx.array, num_wanted: int) -> mx.array:
    """Ids of the likeliest tokens of each row, the likeliest first, at most `num_wanted`."""
    vocab_size = logits.shape[-1]
    if num_wanted >= vocab_size:
        return mx.argsort(-logits, axis=-1)
    ids = mx.argpartition(logits, vocab_size - num_wanted, axis=-1)[:, vocab_size - num_wanted :]
    values = mx.take_along_axis(logits, ids, axis=-1)
    return mx.take_along_axis(ids, mx.argsort(-values, axis=-1), axis=-1)


@dataclass(frozen=True, slots=True)
class Logprobs:
    """The model's own log probabilities at one place of some rows.

    `sampled` has shape [rows]; `top_ids` and `top_values` [rows, n], the likeliest first.
    """

    sampled: mx.array
    top_ids: mx.array
    top_values: mx.array


def measure_logprobs(logits: mx.array, tokens: mx.array, num_top: int) -> Logprobs:
    """Log probabilities of sampled tokens, shape [rows], and of `num_top` others.

    They are those of the model itself: `logits`, [rows, vocabulary], are neither edited nor scaled.
    All are finite and at most 0: what a model gives no chance, or no number, is LOWEST_LOGPROB.
    """
    logits = logits.astype(mx.float32)
    norm = mx.logsumexp(logits, axis=-1, keepdims=True)
    top_ids = find_likeliest(logits, max(num_top, 1))
    # Where more are equally likely than are asked for, the greedy choice must be among them.
    greedy = mx.argmax(logits, axis=-1, keepdims=True).astype(top_ids.dtype)
    is_found = (top_ids == greedy).any(axis=-1, keepdims=True)
    top_ids = mx.where(is_found, top_ids, mx.concatenate([greedy, top_ids[:, 1:]], axis=-1))
    return Logprobs(
        to_finite(mx.take_along_axis(logits, tokens[:, None], axis=-1) - norm)[:, 0],
        top_ids,
        to_finite(mx.take_along_axis(logits, top_ids, axis=-1) - norm),
    )


def to_finite(logprobs: mx.array) -> mx.array:
    """The same values, with LOWEST_LOGPROB in the place of lower ones and of what is no number."""
    return mx.maximum(mx.nan_to_num(logprobs, nan=LOWEST_LOGPROB), LOWEST_LOGPROB)
