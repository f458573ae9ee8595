"""What a request says of sampling beats the model's own settings; the rest of them holds."""

from typing import Any

import pytest

from deployments.translate.sampling import NAMES, to_sampling, to_stop
from deployments.wire.base import SamplingFields
from engine.types import SamplingParams
from tests.support.scripted import CARD


def fields(**sent: Any) -> SamplingFields:
    return SamplingFields.model_validate(sent)


@pytest.mark.parametrize(
    ("sent", "sampling"),
    [
        ({}, SamplingParams(0.7, 0.9)),
        ({"temperature": 0}, SamplingParams(0, 0.9)),
        ({"top_p": 0.0}, SamplingParams(0.7, 0.0)),
        ({"temperature": 2, "top_p": 1}, SamplingParams(2, 1)),
        ({"temperature": None, "top_p": None}, SamplingParams(0.7, 0.9)),
        ({"top_k": 0, "min_p": 0.0, "seed": 0}, SamplingParams(0.7, 0.9, 0, 0.0, seed=0)),
        ({"logit_bias": {}}, SamplingParams(0.7, 0.9)),
        (
            {
                "presence_penalty": -1,
                "frequency_penalty": 0.5,
                "repetition_penalty": 1.2,
                "logit_bias": {"7": -100, "0": 1.5},
            },
            SamplingParams(0.7, 0.9, 0, 0, -1, 0.5, 1.2, ((7, -100), (0, 1.5))),
        ),
    ],
)
def test_what_is_sent_beats_the_card(sent: dict[str, Any], sampling: SamplingParams) -> None:
    assert to_sampling(fields(**sent), CARD) == sampling


@pytest.mark.parametrize(
    ("sent", "stop"), [(None, ()), ([], ()), ("a", ("a",)), (["a", "\n"], ("a", "\n"))]
)
def test_stop_strings_are_one_or_some(sent: object, stop: tuple[str, ...]) -> None:
    assert to_stop(fields(stop=sent)) == stop


def test_no_field_is_forgotten() -> None:
    assert {*NAMES, "logit_bias", "stop"} == SamplingFields.model_fields.keys()
