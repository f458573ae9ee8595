"""The errors that a caller is told of, and the one map from the engine's and the store's to them.

They say what went wrong, not how a protocol spells it: each surface has its own writer in `wire`.
"""

from engine.errors import (
    ContextLengthError,
    DeadlineError,
    EngineError,
    EngineStoppedError,
    GenerationFailedError,
    LogitBiasError,
    NoChatTemplateError,
    QueueFullError,
    RequestError,
)
from stores.errors import (
    ConversationFullError,
    HistoryTooLargeError,
    ParentGoneError,
    StoreDisabledError,
    StoreError,
    UnknownItemError,
)

RETRY_AFTER_S = 2
NO_TEMPLATE = "chat_template_missing"
DEADLINE = "deadline_exceeded"
INPUT = "input"
PREVIOUS, NO_PARENT = "previous_response_id", "previous_response_not_found"


class ServiceError(Exception):
    """Base. `param` is the JSON path of the value at fault, `code` a word that programs act on."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message, param, code)
        self.message = message
        self.param = param
        self.code = code


class InvalidRequestError(ServiceError):
    """The request itself is wrong; sent again it fails again."""


class AuthenticationError(ServiceError):
    """No key, or none of ours."""


class NotFoundError(ServiceError):
    """No such route, model, response or other thing, or not for this caller."""


class MethodNotAllowedError(ServiceError):
    """The route exists, not with this method."""


class PayloadTooLargeError(ServiceError):
    """The body is larger than the server reads."""


class UnsupportedMediaTypeError(ServiceError):
    """The body is not JSON."""


class TooManyRequestsError(ServiceError):
    """The model's queue is full; the same request may succeed soon."""


class UnavailableError(ServiceError):
    """A model or the store is loading, restarting or away; the same request may succeed soon."""


class InternalError(ServiceError):
    """Our fault; the cause is in the log, never in the reply."""


def to_service_error(error: Exception, input_name: str = INPUT) -> ServiceError:
    """What a caller is told of an error: of one that nobody expected, not a word.

    `input_name` is the caller's name for what the engine was to continue.
    """
    match error:
        case ServiceError():
            return error
        case EngineError():
            return engine_to_service_error(error, input_name)
        case StoreError():
            return store_to_service_error(error)
        case _:
            return InternalError("The server had an internal error.", None, "server_error")


def engine_to_service_error(error: EngineError, input_name: str) -> ServiceError:
    match error:
        case ContextLengthError():
            return InvalidRequestError(error.message, input_name, "context_length_exceeded")
        case NoChatTemplateError():
            return InvalidRequestError(error.message, "model", NO_TEMPLATE)
        case LogitBiasError():
            return InvalidRequestError(error.message, "logit_bias", "invalid_value")
        case RequestError():
            return InvalidRequestError(error.message, input_name, "unsupported_value")
        case QueueFullError():
            return TooManyRequestsError(error.message, None, "queue_full")
        case EngineStoppedError():
            return UnavailableError("The model is restarting; try again soon.")
        case DeadlineError():
            return InternalError(error.message, None, DEADLINE)
        case GenerationFailedError():
            return InternalError(error.message, None, "server_error")
        case _:
            return unanswered()


def store_to_service_error(error: StoreError) -> ServiceError:
    match error:
        case StoreDisabledError():
            return InvalidRequestError(error.message, None, "unsupported_value")
        case ParentGoneError():
            return InvalidRequestError(error.message, PREVIOUS, NO_PARENT)
        case UnknownItemError():
            return InvalidRequestError(error.message, "after", "item_not_found")
        case HistoryTooLargeError():
            return InvalidRequestError(error.message, INPUT, "context_length_exceeded")
        case ConversationFullError():
            return InvalidRequestError(error.message, "items", "conversation_full")
        case _:
            return unanswered()


def unanswered() -> InternalError:
    return InternalError("The server could not answer this request.", None, "server_error")
