"""Chat Completions and Completions on a real cluster, read by openai's client."""

from typing import Any

import openai
import pytest

PLAIN, BASE = "smollm2-135m", "base"
CAPITAL = "Count from 1 to 10, then tell me the capital of France."
ASK: dict[str, Any] = {
    "model": PLAIN,
    "messages": [{"role": "user", "content": CAPITAL}],
    "temperature": 0,
}


def test_a_chat_is_answered_as_a_response_is(client: openai.OpenAI) -> None:
    completion = client.chat.completions.create(**ASK)
    (choice,) = completion.choices
    assert choice.message.content == "La femme de France est la France."
    assert (choice.finish_reason, completion.id[:9]) == ("stop", "chatcmpl_")
    assert completion.usage is not None
    assert (completion.usage.completion_tokens, completion.usage.total_tokens) == (10, 57)


def test_a_stream_adds_up_to_the_whole(v1: openai.OpenAI) -> None:
    whole = v1.chat.completions.create(**ASK, logprobs=True, top_logprobs=1)
    with v1.chat.completions.stream(
        **ASK, logprobs=True, top_logprobs=1, stream_options={"include_usage": True}
    ) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.content == whole.choices[0].message.content
    assert final.choices[0].logprobs == whole.choices[0].logprobs
    assert final.usage == whole.usage


@pytest.mark.parametrize("prompt", ["One, two, ", "", [1, 2, 3]])
def test_a_raw_prompt_is_continued_by_a_model_without_a_template(
    v1: openai.OpenAI, prompt: Any
) -> None:
    ask: dict[str, Any] = {"model": BASE, "prompt": prompt, "max_tokens": 4, "temperature": 0}
    whole = v1.completions.create(**ask)
    chunks = list(v1.completions.create(**ask, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    assert whole.choices[0].finish_reason == chunks[-1].choices[0].finish_reason


def test_a_model_without_a_template_takes_no_messages(v1: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        v1.chat.completions.create(**{**ASK, "model": BASE})
    assert (caught.value.param, caught.value.code) == ("model", "chat_template_missing")
