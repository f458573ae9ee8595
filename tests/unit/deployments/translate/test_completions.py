"""A raw prompt as what the engine is asked."""

from dataclasses import replace
from typing import Any

import pytest

from deployments.errors import InvalidRequestError
from deployments.translate.completions import to_completion_generation
from deployments.wire.completions_request import CompletionRequest
from deployments.wire.parse import parse_model
from engine.types import GenerateRequest, SamplingParams
from tests.support.scripted import CARD


def ask(prompt: Any, default_max_tokens: int | None = None, **more: Any) -> GenerateRequest:
    body = {"model": "scripted", "prompt": prompt, **more}
    card = replace(CARD, default_max_tokens=default_max_tokens)
    return to_completion_generation(parse_model(CompletionRequest, body), card, "cmpl_1")


def test_a_prompt_has_no_messages_and_no_template() -> None:
    assert ask("Hi", has_chat_template=False) == GenerateRequest(
        "cmpl_1", (), SamplingParams(0.7, 0.9), prompt="Hi"
    )


@pytest.mark.parametrize("blank", [" ", "\n\t", "\u3000", [" "]])
def test_white_space_alone_is_no_input(blank: Any) -> None:
    with pytest.raises(InvalidRequestError, match="no effective input") as caught:
        ask(blank)
    assert (caught.value.param, caught.value.code) == ("prompt", "missing_required_parameter")


@pytest.mark.parametrize("empty", ["", [""], [], [[]]])
def test_an_empty_prompt_begins_a_text(empty: Any) -> None:
    assert not ask(empty).prompt
    assert ask(empty).prompt is not None


@pytest.mark.parametrize(
    ("sent", "default", "limit"), [(None, None, None), (None, 9, 9), (3, 9, 3), (30, 9, 30)]
)
def test_the_length_is_the_requests_else_the_models(
    sent: int | None, default: int | None, limit: int | None
) -> None:
    assert ask("Hi", default, max_tokens=sent).max_tokens == limit


@pytest.mark.parametrize("number", [None, 0, 20])
def test_log_probabilities_are_asked_for_by_their_number(number: int | None) -> None:
    assert ask("Hi", logprobs=number).top_logprobs == number
