"""An error as OpenAI's clients read it."""

import pytest

from deployments.errors import InternalError, ServiceError
from deployments.wire.errors import STATUS, to_error_body, to_error_headers, to_status
from tests.support.classes import all_subclasses

TOLD = {
    "InvalidRequestError": (400, "invalid_request_error", {}),
    "AuthenticationError": (401, "authentication_error", {}),
    "NotFoundError": (404, "not_found", {}),
    "MethodNotAllowedError": (405, "invalid_request_error", {}),
    "PayloadTooLargeError": (413, "invalid_request_error", {}),
    "UnsupportedMediaTypeError": (415, "invalid_request_error", {}),
    "TooManyRequestsError": (429, "too_many_requests", {"retry-after": "2"}),
    "InternalError": (500, "server_error", {}),
    "UnavailableError": (503, "server_busy", {"retry-after": "2"}),
}


def test_every_service_error_has_a_status() -> None:
    assert set(STATUS) == set(all_subclasses(ServiceError))
    assert {kind.__name__ for kind in STATUS} == set(TOLD)


@pytest.mark.parametrize("kind", STATUS, ids=lambda kind: kind.__name__)
def test_an_error_has_its_status_type_and_headers(kind: type[ServiceError]) -> None:
    error = kind("Not so.", "input[3].content[0].type", "unsupported_value")
    body = to_error_body(error)
    told = (to_status(error), body["error"]["type"], to_error_headers(error))
    assert told == TOLD[kind.__name__]
    assert body == {
        "error": {
            "message": "Not so.",
            "type": TOLD[kind.__name__][1],
            "param": "input[3].content[0].type",
            "code": "unsupported_value",
        }
    }


def test_a_message_is_no_longer_than_a_person_reads() -> None:
    long = to_error_body(InternalError("a" * 1001))["error"]["message"]
    assert long == "a" * 1000 + "…"
    assert to_error_body(InternalError("a" * 1000))["error"]["message"] == "a" * 1000


def test_what_took_too_long_is_not_tried_again_by_itself() -> None:
    error = InternalError("It took too long.", None, "deadline_exceeded")
    assert to_error_headers(error) == {"x-should-retry": "false"}


@pytest.mark.parametrize("kind", STATUS, ids=lambda kind: kind.__name__)
def test_an_error_without_place_or_code_has_all_four_keys(kind: type[ServiceError]) -> None:
    assert to_error_body(kind("Not so.")) == {
        "error": {
            "message": "Not so.",
            "type": TOLD[kind.__name__][1],
            "param": None,
            "code": None,
        }
    }
