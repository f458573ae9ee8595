"""OpenAI's error envelope: always JSON, always these four keys."""

from typing import Any

from deployments.errors import (
    DEADLINE,
    RETRY_AFTER_S,
    AuthenticationError,
    InternalError,
    InvalidRequestError,
    MethodNotAllowedError,
    NotFoundError,
    PayloadTooLargeError,
    ServiceError,
    TooManyRequestsError,
    UnavailableError,
    UnsupportedMediaTypeError,
)

MAX_MESSAGE_CHARACTERS = 1000  # a message may quote a path, a name or a template's own words

STATUS: dict[type[ServiceError], tuple[int, str]] = {
    InvalidRequestError: (400, "invalid_request_error"),
    AuthenticationError: (401, "authentication_error"),
    NotFoundError: (404, "not_found"),
    MethodNotAllowedError: (405, "invalid_request_error"),
    PayloadTooLargeError: (413, "invalid_request_error"),
    UnsupportedMediaTypeError: (415, "invalid_request_error"),
    TooManyRequestsError: (429, "too_many_requests"),
    InternalError: (500, "server_error"),
    UnavailableError: (503, "server_busy"),
}


def to_status(error: ServiceError) -> int:
    return STATUS[type(error)][0]


def to_error_body(error: ServiceError) -> dict[str, Any]:
    return {
        "error": {
            "message": shorten(error.message),
            "type": STATUS[type(error)][1],
            "param": error.param,
            "code": error.code,
        }
    }


def shorten(message: str) -> str:
    """A message that is no longer than a person reads."""
    too_long = len(message) > MAX_MESSAGE_CHARACTERS
    return f"{message[:MAX_MESSAGE_CHARACTERS]}…" if too_long else message


def to_error_headers(error: ServiceError) -> dict[str, str]:
    """`Retry-After` in seconds where sending the same request again may help.

    What took too long once will again: OpenAI's clients are told not to try by themselves.
    """
    if error.code == DEADLINE:
        return {"x-should-retry": "false"}
    if isinstance(error, TooManyRequestsError | UnavailableError):
        return {"retry-after": str(RETRY_AFTER_S)}
    return {}
