"""The body of a completion: the shapes of its one prompt."""

from typing import Any

import pytest
from openai.types.completion_create_params import CompletionCreateParamsBase
from pydantic import ValidationError

from deployments.errors import InvalidRequestError
from deployments.wire.base import NOT_SERVED_ANYWHERE
from deployments.wire.completions_request import (
    MAX_PROMPT_TOKENS,
    NOT_SERVED,
    CompletionRequest,
)
from deployments.wire.parse import parse_model


def parse(prompt: Any) -> CompletionRequest:
    return parse_model(CompletionRequest, {"model": "scripted", "prompt": prompt})


@pytest.mark.parametrize("text", ["", "Hi", " "])
def test_a_text_may_stand_alone_or_in_an_array(text: str) -> None:
    assert parse(text).single_prompt == parse([text]).single_prompt == text


@pytest.mark.parametrize("token_ids", [[], [0], [5, 2**31 - 1]])
def test_token_ids_may_stand_alone_or_in_an_array(token_ids: list[int]) -> None:
    assert parse(token_ids).single_prompt == parse([token_ids]).single_prompt == tuple(token_ids)


@pytest.mark.parametrize("prompts", [["a", "b"], [[1], [2]], ["a", 1], [[1], "a"], [[1], None]])
def test_two_prompts_are_refused_by_their_number(prompts: list[Any]) -> None:
    with pytest.raises(InvalidRequestError, match="only one prompt a request") as caught:
        parse(prompts)
    assert caught.value.param == "prompt"


def test_of_a_million_faults_only_one_is_looked_for() -> None:
    with pytest.raises(ValidationError) as caught:
        CompletionRequest.model_validate({"model": "m", "prompt": [0, *[-1] * 1_000_000]})
    assert caught.value.error_count() == 1


def test_a_prompt_beyond_any_context_is_refused() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse([0] * (MAX_PROMPT_TOKENS + 1))
    assert caught.value.param == "prompt"


def test_every_field_of_openais_client_is_taken_or_refused() -> None:
    ours = {*CompletionRequest.model_fields, *NOT_SERVED, *NOT_SERVED_ANYWHERE}
    assert set(CompletionCreateParamsBase.__annotations__) - ours == set()
