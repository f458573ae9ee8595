"""The KV caches of a loaded model: whether its rows can share a batch, and what they take."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from engine.backend import (
    ArraysCache,
    BatchKVCache,
    BatchRotatingKVCache,
    CacheList,
    KVCache,
    RotatingKVCache,
    make_prompt_cache,
    mx,
    nn,
)
from engine.cache_cost import CacheCost
from engine.errors import ModelLoadError
from engine.memory import read_available_memory, share_memory

# A row alone and one beside a longer row, that is with padding before it.
PROBES = ((1, 4), (24, 4))  # tokens of a prompt, and of what is generated after it
# Differences of logits, as parts of their range. Sums of float32 in another order differ by 1e-4
# at most; in 16 bits rounding alone gives some 0.01, and more where it picks other experts.
FLOAT32_TOLERANCE, TOLERANCE = 0.01, 0.1

# The attention scores of these have an axis for the heads that share keys, their mask has none:
# with one row it broadcasts, with several it does not.
GROUPED_SCORES = ("mlx_lm.models.gemma2",)


class GroupedMask(nn.Module):  # type: ignore[misc, name-defined]
    """An attention whose mask of shape [rows, 1, queries, keys] gets the axis that it lacks."""

    def __init__(self, attention: Any) -> None:
        super().__init__()
        self.attention = attention

    def __call__(self, x: mx.array, mask: Any = None, cache: Any = None) -> mx.array:
        if isinstance(mask, mx.array) and mask.ndim == 4:
            mask = mx.expand_dims(mask, 2)
        output: mx.array = self.attention(x, mask, cache)
        return output


def mend_masks(model: Any) -> None:
    """Let models run in a batch that would, but for the shape of their masks."""
    if type(model).__module__ in GROUPED_SCORES:
        for layer in model.layers:
            layer.self_attn = GroupedMask(layer.self_attn)


def make_batch_cache(model: Any) -> list[Any]:
    """The caches of a batch of one row that has no tokens yet."""
    return [cache.merge([cache]) for cache in make_prompt_cache(model)]


def count_logits(model: Any) -> int:
    """How many token ids the model knows; no id of that number or above may reach it."""
    return feed(model, make_prompt_cache(model), [[0]]).shape[-1]


def measure_cache_cost(model: Any) -> CacheCost:
    """Run one token through the model and read what its caches have allocated for it."""
    caches = make_batch_cache(model)
    feed(model, caches, [[0]])
    token_bytes = row_bytes = 0
    windows: dict[int, int] = {}
    for cache in list_leaves(caches):
        if cache.empty():
            continue  # a layer that reads another's keys and values
        if isinstance(cache, BatchKVCache):
            token_bytes += cache.nbytes // cache.keys.shape[2]
        elif isinstance(cache, BatchRotatingKVCache):
            held = cache.nbytes // cache.keys.shape[2]
            windows[cache.max_size] = windows.get(cache.max_size, 0) + held
        else:
            row_bytes += cache.nbytes
    return CacheCost(token_bytes, tuple(sorted(windows.items())), row_bytes)


def choose_budget(asked: int | None) -> int:
    """Bytes for the KV caches: as asked for, or what the device has left beside the weights."""
    if asked is not None:
        return asked
    mx.clear_cache()
    return share_memory(mx.device_info(), mx.get_active_memory(), read_available_memory())


def check_caches(model: Any) -> None:
    """Refuse a model whose answers would depend on the rows beside them.

    Classes of caches are known to be right or not; how a model's own code uses them is not, so a
    short row is run beside a longer one and compared with runs of each alone. It takes a dozen
    forward passes of one token, which a first request would need to warm up anyway.

    Raises:
        ModelLoadError: naming the type of the model and the reason.
    """
    name = getattr(model, "model_type", type(model).__module__)
    for cache in list_leaves(make_prompt_cache(model)):
        reason = find_obstacle(cache)
        if reason is not None:
            raise ModelLoadError(f"models of type {name} cannot be served: {reason}")
    rows = make_probe_rows(count_logits(model))
    alone = [run_alone(model, *row) for row in rows]
    if any(mx.isnan(logits).any().item() for row in alone for logits in row):
        raise ModelLoadError(f"this model of type {name} computes logits that are not numbers")
    try:
        together = run_together(model, rows)
    except Exception as error:  # whatever the code of a model raises
        raise ModelLoadError(
            f"models of type {name} cannot be served: they fail in a batch: {error}"
        ) from error
    for row, references in zip(together, alone, strict=True):
        if not are_alike(row, references):
            raise ModelLoadError(
                f"models of type {name} cannot be served: in a batch they answer differently"
            )


def find_obstacle(cache: Any) -> str | None:
    """Why rows with such a cache cannot share a batch; None where they can."""
    kind = type(cache)
    if kind is RotatingKVCache and cache.keep:
        return f"their windows keep the first {cache.keep} tokens, which a batch forgets"
    if kind not in (KVCache, RotatingKVCache, ArraysCache):
        return f"their {kind.__name__} is not made for a batch"
    return None


def list_leaves(caches: Iterable[Any]) -> Iterator[Any]:
    """All caches, those inside of lists too."""
    for cache in caches:
        if isinstance(cache, CacheList):
            yield from list_leaves(cache.caches)
        else:
            yield cache


ProbeRow = tuple[list[int], list[int]]


def make_probe_rows(num_ids: int) -> list[ProbeRow]:
    """Prompts and what follows them, of token ids below `num_ids`; all tokens are given."""
    rows = []
    for row, (num_prompt, num_after) in enumerate(PROBES):
        ids = [(31 * place + 17 * row + 5) % num_ids for place in range(num_prompt + num_after)]
        rows.append((ids[:num_prompt], ids[num_prompt:]))
    return rows


def run_alone(model: Any, prompt: list[int], after: list[int]) -> list[mx.array]:
    """The logits after each token that follows the prompt, over mlx-lm's caches for one row."""
    caches = make_prompt_cache(model)
    feed(model, caches, [prompt])
    return [feed(model, caches, [[token]])[0] for token in after]


def run_together(model: Any, rows: Sequence[ProbeRow]) -> list[list[mx.array]]:
    """The same logits of all rows as one batch, joined after their prompts."""
    batches = []
    for prompt, _ in rows:
        batches.append(make_batch_cache(model))
        feed(model, batches[-1], [prompt])
    for joining in batches[1:]:
        for cache, other in zip(batches[0], joining, strict=True):
            cache.extend(other)
    columns = zip(*(after for _, after in rows), strict=True)
    steps = [feed(model, batches[0], [[token] for token in column]) for column in columns]
    return [[step[row] for step in steps] for row in range(len(rows))]


def feed(model: Any, caches: list[Any], tokens: list[list[int]]) -> mx.array:
    """The last logits of each row, shape [rows, vocabulary]."""
    logits: mx.array = model(mx.array(tokens, dtype=mx.uint32), cache=caches)[:, -1]
    mx.eval(logits)
    return logits


def are_alike(row: Sequence[mx.array], references: Sequence[mx.array]) -> bool:
    """Whether some step of a row has the reference's logits.

    What is wrong with a batch is wrong at every step, while rounding may pick another expert at
    one of them.
    """
    return any(map(is_alike, row, references))


def is_alike(logits: mx.array, reference: mx.array) -> bool:
    tolerance = FLOAT32_TOLERANCE if reference.dtype == mx.float32 else TOLERANCE
    logits, reference = logits.astype(mx.float32), reference.astype(mx.float32)
    finite = mx.isfinite(reference)  # some models rule out ids by minus infinity
    difference = mx.where(finite, mx.abs(logits - reference), 0).max()
    highest = mx.where(finite, reference, -mx.inf).max()
    lowest = mx.where(finite, reference, mx.inf).min()
    return bool((difference <= tolerance * (highest - lowest)).item())
