"""Runs one model's forward passes over mlx-lm's batch classes; all arrays live and die here.

Not thread-safe: MLX's streams belong to the thread that uses them, so every call comes from the
engine's one thread.
"""

import secrets
from collections.abc import Sequence
from typing import Any

from engine.backend import GenerationBatch, PromptProcessingBatch, make_prompt_cache, mx
from engine.sampling import BatchSampler
from engine.types import SamplingParams

CLEAR_CACHE_STEPS = 512  # as often as mlx-lm's own loop returns freed buffers to the system


class DecodeBatch(GenerationBatch):  # type: ignore[misc]
    """mlx-lm's decode batch with one sampler over all rows and no log probabilities.

    mlx-lm samples row by row and normalises the whole vocabulary at every step; on a CPU that takes
    longer than a small model's forward pass. Everything else (caches, joining, leaving) is its own.
    """

    _next_tokens: Any
    _current_tokens: Any

    def __init__(self, prompts: PromptProcessingBatch, inputs: Any, sampler: BatchSampler) -> None:
        self.sampler = sampler
        super().__init__(
            prompts.model,
            prompts.uids,
            inputs,
            prompts.prompt_cache,
            prompts.tokens,
            samplers=[None] * len(prompts.uids),
            fallback_sampler=None,
            logits_processors=[()] * len(prompts.uids),
            stop_sequences=prompts.stop_sequences,
            max_tokens=prompts.max_tokens,
        )

    def extend(self, batch: "DecodeBatch") -> None:
        super().extend(batch)
        self.sampler.extend(batch.sampler)

    def filter(self, keep: list[int]) -> None:
        super().filter(keep)
        self.sampler.filter(keep)

    def step(self) -> list[int]:
        """Launch the next forward pass and return the tokens of the one before, one a row."""
        return self._step()[0]

    def _step(self) -> tuple[list[int], list[None]]:
        inputs = self._next_tokens
        logits = self.model(inputs[:, None], cache=self.prompt_cache)[:, -1, :]
        self._current_tokens = inputs
        self._next_tokens = self.sampler(logits)
        self._current_logprobs = self._next_logprobs = [None] * len(self.uids)
        mx.async_eval(self._next_tokens)
        tokens: list[int] = inputs.tolist()
        for row, token in zip(self.tokens, tokens, strict=True):
            row.append(token)
        return tokens, self._current_logprobs


class PromptBatch(PromptProcessingBatch):  # type: ignore[misc]
    """mlx-lm's prefill of one prompt, ending in our decode batch instead of mlx-lm's."""

    def start(self, last_token: int, sampler: BatchSampler) -> DecodeBatch:
        """Feed the prompt's last token; the batch that comes back samples from its logits."""
        return DecodeBatch(self, mx.array([last_token], dtype=mx.uint32), sampler)


class Runner:
    """The sequences that hold a KV cache: prompts in prefill and the rows of the decode batch."""

    def __init__(self, model: Any, chunk_tokens: int) -> None:
        self._model = model
        self._chunk_tokens = chunk_tokens
        self._prompts: dict[str, PromptBatch] = {}
        self._batch: DecodeBatch | None = None
        self._num_steps = 0

    def prefill(self, generation_id: str, token_ids: Sequence[int]) -> None:
        """Extend a sequence's KV cache by these prompt tokens, and wait until it is computed."""
        self._prompt(generation_id).prompt([list(token_ids)])

    def start(self, generation_id: str, last_token: int, sampling: SamplingParams) -> None:
        """Move a sequence into the decode batch; its first token comes out of the next `decode`."""
        prompt = self._prompt(generation_id)
        del self._prompts[generation_id]
        key = mx.random.key(secrets.randbits(63))
        batch = prompt.start(last_token, BatchSampler([sampling], key[None]))
        if self._batch is None:
            self._batch = batch
        else:
            self._batch.extend(batch)

    def decode(self) -> dict[str, int]:
        """One token id for every row of the decode batch, by generation id."""
        if self._batch is None:
            return {}
        self._num_steps += 1
        if self._num_steps % CLEAR_CACHE_STEPS == 0:
            mx.clear_cache()
        uids = list(self._batch.uids)
        return dict(zip(uids, self._batch.step(), strict=True))

    def remove(self, generation_ids: set[str]) -> None:
        """Free the KV caches of these sequences; ids without one are ignored."""
        for generation_id in generation_ids:
            self._prompts.pop(generation_id, None)
        if self._batch is None:
            return
        keep = [row for row, name in enumerate(self._batch.uids) if name not in generation_ids]
        if not keep:
            self._batch = None
        elif len(keep) < len(self._batch.uids):
            self._batch.filter(keep)

    def _prompt(self, generation_id: str) -> PromptBatch:
        if generation_id not in self._prompts:
            cache = make_prompt_cache(self._model)
            self._prompts[generation_id] = PromptBatch(
                self._model, [generation_id], [cache], prefill_step_size=self._chunk_tokens
            )
        return self._prompts[generation_id]
