"""Every error of the engine and of the store is told to a caller, and no word too much."""

import pickle

import pytest

from deployments.errors import (
    InternalError,
    InvalidRequestError,
    ServiceError,
    TooManyRequestsError,
    UnavailableError,
    to_service_error,
)
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
from stores.errors import (
    ConversationFullError,
    HistoryTooLargeError,
    ParentGoneError,
    StoreDisabledError,
    StoreError,
    StoreFaultError,
    StoreRefusal,
    UnknownItemError,
)
from tests.support.classes import all_subclasses

SILENT = InternalError("The server could not answer this request.", None, "server_error")
TOLD: list[tuple[EngineError | StoreError, ServiceError]] = [
    (
        ContextLengthError(1200, 1000),
        InvalidRequestError(
            ContextLengthError(1200, 1000).message,
            "input",
            "context_length_exceeded",
        ),
    ),
    (
        ChatTemplateError("roles must alternate"),
        InvalidRequestError("roles must alternate", "input", "unsupported_value"),
    ),
    (
        Refusal("not now"),
        InternalError("The server could not answer this request.", None, "server_error"),
    ),
    (
        RequestError("not like this"),
        InvalidRequestError("not like this", "input", "unsupported_value"),
    ),
    (
        LogitBiasError(50_000, 49_152),
        InvalidRequestError(
            "50000 is not one of the model's 49152 token ids.", "logit_bias", "invalid_value"
        ),
    ),
    (
        UnknownTokenError(50_000, 49_152),
        InvalidRequestError(
            "The input holds token 50000, but the model has 49152 tokens.",
            "input",
            "unsupported_value",
        ),
    ),
    (
        DeadlineError(60.0),
        InternalError(DeadlineError(60.0).message, None, "deadline_exceeded"),
    ),
    (
        NoChatTemplateError(),
        InvalidRequestError(NoChatTemplateError().message, "model", "chat_template_missing"),
    ),
    (
        QueueFullError(64),
        TooManyRequestsError(QueueFullError(64).message, None, "queue_full"),
    ),
    (
        EngineStoppedError("thread engine-3 at /opt/antiphon has ended"),
        UnavailableError("The model is restarting; try again soon."),
    ),
    (
        GenerationFailedError("The generation failed."),
        InternalError("The generation failed.", None, "server_error"),
    ),
    (ModelLoadError("no such file: /home/me/model.gguf"), SILENT),
    (EngineError("at 0x7f00"), SILENT),
    (
        StoreDisabledError("responses_store_max_entries"),
        InvalidRequestError(
            "Nothing is stored on this server: its setting `responses_store_max_entries` is 0.",
            None,
            "unsupported_value",
        ),
    ),
    (
        ParentGoneError("no such parent"),
        InvalidRequestError(
            "no such parent", "previous_response_id", "previous_response_not_found"
        ),
    ),
    (
        UnknownItemError("no such item"),
        InvalidRequestError("no such item", "after", "item_not_found"),
    ),
    (
        HistoryTooLargeError("too much"),
        InvalidRequestError("too much", "input", "context_length_exceeded"),
    ),
    (
        ConversationFullError("no room"),
        InvalidRequestError("no room", "items", "conversation_full"),
    ),
    (StoreRefusal("no"), SILENT),
    (StoreFaultError("/var/lib/antiphon.db is full"), SILENT),
    (StoreError("/var/lib/antiphon.db is locked"), SILENT),
]


def test_the_examples_are_all_errors_of_the_engine_and_of_the_store() -> None:
    engine, store = all_subclasses(EngineError), all_subclasses(StoreError)
    assert {type(error) for error, _ in TOLD} == {EngineError, StoreError, *engine, *store}


@pytest.mark.parametrize(("error", "told"), TOLD, ids=lambda e: type(e).__name__)
def test_an_error_is_told_as(error: EngineError | StoreError, told: ServiceError) -> None:
    result = to_service_error(error)
    assert (type(result), vars(result)) == (type(told), vars(told))


@pytest.mark.parametrize("kind", all_subclasses(ServiceError), ids=lambda kind: kind.__name__)
def test_a_service_error_survives_pickling(kind: type[ServiceError]) -> None:
    error = kind("message", "input[3]", "code")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (copy.args, vars(copy)) == (error.args, vars(error))
