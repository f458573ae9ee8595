"""What is admitted has only numbers that the model knows."""

from types import SimpleNamespace
from typing import Any

import pytest

from engine.admission import Admission
from engine.errors import (
    ContextLengthError,
    EngineError,
    GenerationFailedError,
    LogitBiasError,
    UnknownTokenError,
)
from engine.types import GenerateRequest, SamplingParams

MODEL: Any = SimpleNamespace(
    context_length=10, num_logits=5, is_memory_bound=False, vocabulary=(b"a",) * 5, special_ids={4}
)


def ask(*bias: int, max_tokens: int | None = None) -> GenerateRequest:
    sampling = SamplingParams(logit_bias=tuple((token_id, 1.0) for token_id in bias))
    return GenerateRequest("g", (), sampling, max_tokens, stop=("b",), top_logprobs=2)


@pytest.mark.parametrize(
    ("prompt", "bias", "error"),
    [
        ([0, 5], (), UnknownTokenError),
        ([0, 4], (5,), LogitBiasError),
        ([0, 4], (4, 0, -1), LogitBiasError),
        ([0] * 10, (), ContextLengthError),
        ([], (), GenerationFailedError),
    ],
)
def test_what_the_model_does_not_know_is_refused(
    prompt: list[int], bias: tuple[int, ...], error: type[EngineError]
) -> None:
    with pytest.raises(error):
        Admission(MODEL).make_generation(ask(*bias), prompt, deadline_s=7.0, limit_s=2.0)


@pytest.mark.parametrize(("asked", "most"), [(None, 8), (1, 1), (8, 8), (9, 8), (2**53, 8)])
def test_output_is_clamped_to_the_room_that_the_prompt_leaves(asked: int | None, most: int) -> None:
    generation = Admission(MODEL).make_generation(
        ask(4, max_tokens=asked), [4, 0], deadline_s=7.0, limit_s=2.0
    )
    assert generation.max_tokens == most
    assert (generation.deadline_s, generation.limit_s) == (7.0, 2.0)
    assert generation.params.top_logprobs == 2
