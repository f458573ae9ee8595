"""Picks the next token of every row in one call, each with its own parameters and random key."""

from collections.abc import Sequence

from engine.backend import mx
from engine.types import SamplingParams

# Below this the likeliest token has all the mass, and dividing by it would leave float32's range.
GREEDY_BELOW = 1e-4
SMALLEST = 1e-9  # stands for a `top_p` of 0, under which even the likeliest token would fall


class BatchSampler:
    """Parameters of the rows of a batch, and the array work that applies them.

    Rows join by `extend` and leave by `filter`, as in the batch they belong to. A row's random key
    is its own, so what other rows draw never changes what it draws.
    """

    def __init__(self, params: Sequence[SamplingParams], keys: mx.array) -> None:
        """`keys` has shape [rows, 2], one `mx.random.key` a row."""
        self._params = list(params)
        self._keys = keys
        self._build()

    def extend(self, other: "BatchSampler") -> None:
        self._params.extend(other._params)
        self._keys = mx.concatenate([self._keys, other._keys])
        self._build()

    def filter(self, keep: Sequence[int]) -> None:
        self._params = [self._params[row] for row in keep]
        self._keys = self._keys[mx.array(list(keep), dtype=mx.uint32)]
        self._build()

    def __call__(self, logits: mx.array) -> mx.array:
        """Ids of shape [rows] for logits of shape [rows, vocabulary]."""
        greedy = mx.argmax(logits, axis=-1)
        if not self._draws:
            return greedy
        scaled = logits.astype(mx.float32) / self._divisor
        if self._cuts:
            scaled = cut_nucleus(scaled, self._top_p)
        split = mx.vmap(lambda key: mx.random.split(key, 2))(self._keys)
        self._keys = split[:, 0]
        drawn = mx.vmap(lambda row, key: mx.random.categorical(row, key=key))(scaled, split[:, 1])
        return mx.where(self._is_greedy, greedy, drawn)

    def _build(self) -> None:
        sampled = [params.temperature for params in self._params]
        temperatures = [t if t >= GREEDY_BELOW else 0.0 for t in sampled]
        self._draws = any(temperature > 0 for temperature in temperatures)
        self._cuts = any(params.top_p < 1 for params in self._params)
        self._is_greedy = mx.array([temperature == 0 for temperature in temperatures])
        self._divisor = mx.array([t if t > 0 else 1.0 for t in temperatures])[:, None]
        self._top_p = mx.array([params.top_p for params in self._params])[:, None]


def cut_nucleus(logits: mx.array, top_p: mx.array) -> mx.array:
    """Keep the fewest likeliest tokens whose mass reaches `top_p`, set the others to -inf.

    A token stays while the mass of the tokens before it is below `top_p`, so the likeliest always
    stays (Holtzman et al., 2020). Shapes: logits [rows, vocabulary], top_p [rows, 1].
    """
    order = mx.argsort(-logits, axis=-1)
    probabilities = mx.softmax(mx.take_along_axis(logits, order, axis=-1), axis=-1)
    mass_before = mx.cumsum(probabilities, axis=-1) - probabilities
    kept = mx.put_along_axis(
        mx.zeros(logits.shape, dtype=mx.bool_),
        order,
        mass_before < mx.maximum(top_p, SMALLEST),
        axis=-1,
    )
    return mx.where(kept, logits, -mx.inf)
