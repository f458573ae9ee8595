"""Runs one model's forward passes over mlx-lm's batch caches; all arrays live and die here.

Not thread-safe: MLX's streams belong to the thread that uses them, so every call comes from the
engine's one thread.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.backend import mx, to_python
from engine.caches import make_batch_cache
from engine.sampling import BatchSampler, Draw, Logprobs, SampledRow, measure_logprobs
from engine.sequence import BatchLostError, SampledToken, SequenceParams, StepOutput

logger = logging.getLogger(__name__)

CLEAR_CACHE_STEPS = 512  # as often as mlx-lm's own loop returns freed buffers to the system

# Caches count their tokens in arrays that models without rotary embeddings never look at: left
# uncomputed, they become chains that grow by a link a step.
SETTLE_CACHE_STEPS = 64


@dataclass(frozen=True, slots=True)
class MeasuredLogprobs:
    """Log probabilities of the rows that asked, which stand at `rows` of the batch."""

    rows: tuple[int, ...]
    logprobs: Logprobs


class DecodeBatch:
    """The rows that generate: their caches, padded to the longest, and what picks their tokens.

    A step launches the next forward pass before it returns the tokens of the one before, so that
    the device works while these are handed on.
    """

    def __init__(
        self,
        model: Any,
        name: str,
        cache: list[Any],
        last_token: int,
        params: SequenceParams,
        generated: Sequence[int],
    ) -> None:
        """Begin with one row whose cache holds all of its tokens but the last.

        `generated` are the tokens that it has drawn in an earlier batch; its constraint, which has
        seen them, does not see the last one again.
        """
        self.names = [name]
        self._model = model
        self._cache = cache
        self._params = [params]
        self._failed: set[str] = set()
        self._draw: Draw
        self._logits: mx.array | None
        inputs = mx.array([last_token], dtype=mx.uint32)
        logits = self._forward(inputs)
        row = SampledRow(params.sampling, params.key, generated)
        self._sampler = BatchSampler([row], logits.shape[-1])
        self._launch(logits, inputs, accepted=None)

    def step(self) -> StepOutput:
        """Launch the next forward pass and return the tokens of the one before.

        A row that failed when that one was launched fails now. One that fails at this launch still
        has its token: it may be the last, after which a constraint has nothing to say any more.
        """
        failed, self._failed = frozenset(self._failed), set()
        inputs = self._sampler.settle(self._draw)
        measured = self._measure(inputs)
        logits = self._forward(inputs)
        accepted: list[int] | None = None
        if self._has_constraints:
            mx.async_eval(logits)  # the constraints move on while it is computed
            accepted = to_python(inputs)
        self._launch(logits, inputs, accepted)
        ids: list[int] = to_python(inputs) if accepted is None else accepted
        tokens = dict(zip(self.names, to_sampled_tokens(ids, measured, self._params), strict=True))
        return StepOutput({n: token for n, token in tokens.items() if n not in failed}, failed)

    def extend(self, other: "DecodeBatch") -> None:
        """Add the rows of another batch after these."""
        for batch in (self, other):
            batch._draw = Draw(batch._sampler.settle(batch._draw))
        if self._logits is not None or other._logits is not None:
            self._logits = mx.concatenate(
                [
                    mx.zeros((len(batch.names), self._sampler.vocab_size))
                    if batch._logits is None
                    else batch._logits
                    for batch in (self, other)
                ]
            )
        self._draw = Draw(mx.concatenate([self._draw.tokens, other._draw.tokens]))
        self._sampler.extend(other._sampler)
        for mine, theirs in zip(self._cache, other._cache, strict=True):
            mine.extend(theirs)
        self.names += other.names
        self._params += other._params
        self._failed |= other._failed

    def filter(self, keep: list[int]) -> None:
        """Keep the rows at these places, at least one, and free the others' caches."""
        rows = mx.array(keep, dtype=mx.uint32)
        self._draw = Draw(self._sampler.settle(self._draw)[rows])
        self._sampler.filter(keep)
        for cache in self._cache:
            cache.filter(keep)
        self.names = [self.names[row] for row in keep]
        self._params = [self._params[row] for row in keep]
        self._failed &= set(self.names)
        self._logits = self._logits[rows] if self._logits is not None and self._asks else None

    def settle_caches(self) -> None:
        """Compute what the caches hold, so that nothing they were made of is kept."""
        mx.eval([cache.state for cache in self._cache])

    @property
    def _has_constraints(self) -> bool:
        return any(params.constraint is not None for params in self._params)

    @property
    def _asks(self) -> bool:
        """Whether any row wants log probabilities."""
        return any(params.top_logprobs is not None for params in self._params)

    def _forward(self, inputs: mx.array) -> mx.array:
        """Logits of shape [rows, vocabulary]; the caches grow by one token a row."""
        logits: mx.array = self._model(inputs[:, None], cache=self._cache)[:, -1, :]
        return logits

    def _launch(self, logits: mx.array, inputs: mx.array, accepted: list[int] | None) -> None:
        """Draw from the logits and begin to compute it all."""
        allowed = self._find_allowed(accepted) if self._has_constraints else None
        self._draw = self._sampler(logits, inputs, allowed)
        self._logits = logits if self._asks else None
        mx.async_eval(*[a for a in (self._draw.tokens, self._draw.is_sure) if a is not None])

    def _find_allowed(self, accepted: list[int] | None) -> mx.array:
        """Which tokens each row may generate; a row whose constraint fails may generate any.

        It fails alone: the others' caches have grown with the forward pass, so the step goes on.
        """
        allowed = np.ones((len(self.names), self._sampler.vocab_size), dtype=np.bool_)
        for row, (name, params) in enumerate(zip(self.names, self._params, strict=True)):
            if params.constraint is None or name in self._failed:
                continue
            try:
                if accepted is not None:
                    params.constraint.accept(accepted[row])
                params.constraint.fill(allowed[row])
                has_choice = bool(allowed[row].any())
            except Exception:
                logger.exception("the constraint of generation %s failed", name)
                has_choice = False
            if not has_choice:
                allowed[row] = True
                self._failed.add(name)
        return mx.array(allowed)

    def _measure(self, tokens: mx.array) -> MeasuredLogprobs | None:
        """The log probabilities of drawn tokens, for the rows that ask."""
        if self._logits is None:
            return None
        asked = {
            row: params.top_logprobs
            for row, params in enumerate(self._params)
            if params.top_logprobs is not None
        }
        rows = tuple(asked)
        places = mx.array(rows, dtype=mx.uint32)
        logprobs = measure_logprobs(self._logits[places], tokens[places], max(asked.values()))
        mx.async_eval(logprobs.sampled, logprobs.top_ids, logprobs.top_values)
        return MeasuredLogprobs(rows, logprobs)


class Runner:
    """The sequences that hold a KV cache: prompts in prefill and the rows of the decode batch."""

    def __init__(self, model: Any, chunk_tokens: int) -> None:
        self._model = model
        self._chunk_tokens = chunk_tokens
        self._prompts: dict[str, list[Any]] = {}
        self._batch: DecodeBatch | None = None
        self._num_steps = 0

    def prefill(self, generation_id: str, token_ids: Sequence[int]) -> None:
        """Extend a sequence's KV cache by these tokens, and wait until it is computed."""
        cache = self._find_cache(generation_id)
        for begin in range(0, len(token_ids), self._chunk_tokens):
            chunk = mx.array([token_ids[begin : begin + self._chunk_tokens]], dtype=mx.uint32)
            self._model(chunk, cache=cache)
            mx.eval([layer.state for layer in cache])
            mx.clear_cache()

    def start(
        self,
        generation_id: str,
        last_token: int,
        params: SequenceParams,
        generated: Sequence[int] = (),
    ) -> None:
        """Move a sequence into the decode batch; its next token comes out of the next `decode`.

        `generated` are those of its tokens that were drawn before, the last token among them.

        Raises:
            BatchLostError: where the other rows may be damaged too; any other error is its own.
        """
        cache = self._find_cache(generation_id)
        del self._prompts[generation_id]
        batch = DecodeBatch(self._model, generation_id, cache, last_token, params, generated)
        if self._batch is None:
            self._batch = batch
            return
        try:
            self._batch.extend(batch)
        except Exception as error:
            raise BatchLostError("a sequence could not join the batch") from error

    def decode(self) -> StepOutput:
        """One token for every row of the decode batch."""
        if self._batch is None:
            return StepOutput()
        self._num_steps += 1
        if self._num_steps % CLEAR_CACHE_STEPS == 0:
            mx.clear_cache()
        if self._num_steps % SETTLE_CACHE_STEPS == 0:
            self._batch.settle_caches()
        return self._batch.step()

    def remove(self, generation_ids: set[str]) -> None:
        """Free the KV caches of these sequences; ids without one are ignored."""
        for generation_id in generation_ids:
            self._prompts.pop(generation_id, None)
        if self._batch is None or not generation_ids:
            return
        keep = [row for row, name in enumerate(self._batch.names) if name not in generation_ids]
        if not keep:
            self._batch = None
        elif len(keep) < len(self._batch.names):
            self._batch.filter(keep)

    def _find_cache(self, generation_id: str) -> list[Any]:
        """The batch caches of one row in which a prompt's tokens are collected."""
        if generation_id not in self._prompts:
            self._prompts[generation_id] = make_batch_cache(self._model)
        return self._prompts[generation_id]


def to_sampled_tokens(
    ids: list[int], measured: MeasuredLogprobs | None, params: Sequence[SequenceParams]
) -> list[SampledToken]:
    """The tokens of a step with their log probabilities, cut to as many as each row asked for."""
    if measured is None:
        return [SampledToken(token_id) for token_id in ids]
    logprobs = measured.logprobs
    tops = zip(to_python(logprobs.top_ids), to_python(logprobs.top_values), strict=True)
    own = to_python(logprobs.sampled)
    found = dict(zip(measured.rows, zip(own, tops, strict=True), strict=True))
    sampled = []
    for row, token_id in enumerate(ids):
        if row not in found:
            sampled.append(SampledToken(token_id))
            continue
        logprob, (top_ids, top_values) = found[row]
        # Of equally likely tokens the lowest id comes first, as the greedy choice has it.
        top = tuple(sorted(zip(top_ids, top_values, strict=True), key=lambda t: (-t[1], t[0])))
        sampled.append(SampledToken(token_id, logprob, top[: params[row].top_logprobs]))
    return sampled
