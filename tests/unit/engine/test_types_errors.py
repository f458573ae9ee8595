"""What crosses a process boundary arrives as it was sent: the engine's errors and its values."""

import pickle

import pytest

from engine.errors import (
    ChatTemplateError,
    ContextLengthError,
    DeadlineError,
    EngineError,
    EngineStoppedError,
    GenerationFailedError,
    LogitBiasError,
    ModelLoadError,
    NoChatTemplateError,
    QueueFullError,
    Refusal,
    RequestError,
    UnknownTokenError,
)
from engine.types import (
    ChatMessage,
    EngineStats,
    GenerateRequest,
    GenerationFinished,
    GenerationStarted,
    SampledLogprob,
    SamplingParams,
    TextDelta,
    TokenLogprob,
)
from tests.support.classes import all_subclasses
from tests.support.scripted import CARD

ERRORS = [
    EngineError("out of order"),
    ModelLoadError("no such file: a.gguf"),
    Refusal("not now"),
    RequestError("not like this"),
    ContextLengthError(1200, 1000),
    ChatTemplateError("roles must alternate"),
    LogitBiasError(50_000, 49_152),
    UnknownTokenError(50_000, 49_152),
    DeadlineError(60.0),
    NoChatTemplateError(),
    QueueFullError(64),
    GenerationFailedError("out of memory"),
    EngineStoppedError("the thread has ended"),
]
VALUES = [
    GenerateRequest("resp_1", (ChatMessage("user", "é 🙂"),), SamplingParams(0.0, 0.5), 7),
    GenerationStarted(5, cached_tokens=3),
    TextDelta("é 🙂", 1),
    TextDelta("é", 1, (SampledLogprob(TokenLogprob(b"\xc3", -0.5), (TokenLogprob(b"a", -1.5),)),)),
    GenerationFinished("abort", 2),
    CARD,
    EngineStats("engine", True, *range(1, 17)),
]


def test_the_examples_are_all_of_the_engines_errors() -> None:
    assert {type(error) for error in ERRORS} == {EngineError, *all_subclasses(EngineError)}


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_an_error_survives_pickling(error: EngineError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (copy.args, vars(copy), str(copy)) == (error.args, vars(error), str(error))


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_a_value_survives_pickling(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value


def test_errors_of_a_request_say_its_numbers() -> None:
    assert ContextLengthError(1200, 1000).message == (
        "The input of 1200 tokens or more leaves no room for output in the model's context of "
        "1000 tokens."
    )
    assert "(64)" in QueueFullError(64).message
    assert "60 s" in DeadlineError(60.0).message
    assert "kv_cache_bytes" in ContextLengthError(1200, 1000, is_memory_bound=True).message
