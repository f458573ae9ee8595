"""What is admitted has only numbers that the model knows, and is counted as it would be read."""

from types import SimpleNamespace
from typing import Any

import pytest

from engine.admission import MAX_SHRINKING, Admission
from engine.errors import (
    ContextLengthError,
    EngineError,
    GenerationFailedError,
    LogitBiasError,
    RequestError,
    UnknownTokenError,
)
from engine.types import ChatMessage, GenerateRequest, SamplingParams, ToolCall

BEGIN = 3


class Letters:
    """A tokenizer of the letters a to h, ids 0 to 7, that puts `first` before a raw text."""

    def __init__(self, *first: int) -> None:
        self._first = list(first)

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        ids = [ord(letter) - ord("a") for letter in text]
        return self._first + ids if add_special_tokens else ids


class Verbatim:
    """A template that renders the contents and nothing else."""

    def render(self, messages: tuple[ChatMessage, ...]) -> str:
        return "".join(str(message.content) for message in messages)


def make_model(**changes: Any) -> Any:
    model = {
        "context_length": 10,
        "num_logits": 5,
        "is_memory_bound": False,
        "vocabulary": (b"a",) * 5,
        "longest_token_bytes": 1,
        "special_ids": {4},
        "begin_id": BEGIN,
        "tokenizer": Letters(),
        "chat_template": Verbatim(),
    }
    return SimpleNamespace(**{**model, **changes})


MODEL = make_model()


def ask(*bias: int, max_tokens: int | None = None) -> GenerateRequest:
    sampling = SamplingParams(logit_bias=tuple((token_id, 1.0) for token_id in bias))
    return GenerateRequest("g", (), sampling, max_tokens, stop=("b",), top_logprobs=2)


def ask_raw(prompt: str | tuple[int, ...]) -> GenerateRequest:
    return GenerateRequest("g", (), SamplingParams(), prompt=prompt)


def ask_chat(text: str) -> GenerateRequest:
    return GenerateRequest("g", (ChatMessage("user", text),), SamplingParams())


@pytest.mark.parametrize(
    ("prompt", "bias", "error"),
    [
        ([0, 5], (), UnknownTokenError),
        ([-1, 4], (), UnknownTokenError),
        ([0, 4], (5,), LogitBiasError),
        ([0, 4], (4, 0, -1), LogitBiasError),
        ([0] * 10, (), ContextLengthError),
        ([9] * 10, (), ContextLengthError),
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


@pytest.mark.parametrize(
    ("first", "request_", "prompt"),
    [
        ((), ask_raw("abc"), [0, 1, 2]),
        ((4,), ask_raw("abc"), [4, 0, 1, 2]),
        ((4,), ask_chat("abc"), [0, 1, 2]),
        ((4,), ask_raw((2, 1)), [2, 1]),
        ((4,), ask_raw(""), [4]),
        ((), ask_raw(""), [BEGIN]),
        ((), ask_raw(()), [BEGIN]),
    ],
)
def test_a_prompt_is_what_the_template_the_tokenizer_or_the_caller_makes_it(
    first: tuple[int, ...], request_: GenerateRequest, prompt: list[int]
) -> None:
    admission = Admission(make_model(tokenizer=Letters(*first)))
    assert admission.tokenize(request_) == prompt
    assert admission.count(request_) == len(prompt)


@pytest.mark.parametrize("prompt", ["", ()])
def test_nothing_is_continued_where_no_token_begins_a_text(prompt: str | tuple[int, ...]) -> None:
    with pytest.raises(RequestError, match="The prompt is empty"):
        Admission(make_model(begin_id=None)).tokenize(ask_raw(prompt))


def test_what_is_longer_than_the_context_is_counted_unless_it_could_never_fit() -> None:
    admission = Admission(MODEL)
    longest = MODEL.context_length * MAX_SHRINKING - 1
    assert admission.count(ask_raw((1,) * 1000)) == 1000
    for make in (ask_raw, ask_chat):
        assert admission.count(make("a" * longest)) == longest
        with pytest.raises(ContextLengthError):
            admission.count(make("a" * (longest + 1)))


@pytest.mark.parametrize("prompt", [(5,), (0, -1), (2**70, 0), "af"])
def test_tokens_that_the_model_does_not_know_are_not_counted(prompt: str | tuple[int, ...]) -> None:
    with pytest.raises(UnknownTokenError):
        Admission(MODEL).count(ask_raw(prompt))


def test_what_a_template_renders_to_nothing_is_neither_counted_nor_run() -> None:
    with pytest.raises(GenerationFailedError):
        Admission(MODEL).count(ask_chat(""))


def test_half_a_character_is_refused_before_a_tokenizer_stumbles_on_it() -> None:
    for make in (ask_raw, ask_chat):
        with pytest.raises(RequestError, match="half a character"):
            Admission(make_model(tokenizer=None)).tokenize(make("a\ud800"))


def test_a_bias_does_not_change_how_a_prompt_is_counted() -> None:
    biased = SamplingParams(logit_bias=((999, 1.0),))
    request = GenerateRequest("g", (), biased, prompt="abc")
    assert Admission(MODEL).count(request) == 3


class Unasked:
    """A template that nobody may ask."""

    def render(self, _: tuple[ChatMessage, ...]) -> str:
        raise AssertionError("it takes long")


@pytest.mark.parametrize(
    "message",
    [
        ChatMessage("user", "a" * 31),
        ChatMessage("user", ("a" * 16, "a" * 15)),
        ChatMessage("assistant", "", tool_calls=(ToolCall("c", "f", "a" * 31),)),
    ],
    ids=["text", "parts", "arguments"],
)
def test_messages_that_can_never_fit_are_refused_before_they_are_rendered(
    message: ChatMessage,
) -> None:
    admission = Admission(make_model(chat_template=Unasked()))
    request = GenerateRequest("g", (message,), SamplingParams())
    with pytest.raises(ContextLengthError):
        admission.tokenize(request)
