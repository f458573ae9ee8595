"""Bytes of a request body to a checked wire model; every fault is an error that names its place."""

import math
import re
from typing import Any, TypeVar

import pydantic_core
from pydantic import BaseModel, ValidationError

from deployments.errors import InvalidRequestError

Model = TypeVar("Model", bound=BaseModel)


MAX_PARAM_CHARACTERS = 256  # a path may hold a key that the client made up

# How wire models name the branch of a union that takes all but a string.
ARRAY_BRANCH = "<array>"

# Python's own encoder writes these for numbers that JSON does not have.
NOT_FINITE = re.compile(rb"NaN|Infinity")


def parse_json_object(body: bytes) -> dict[str, Any]:
    """A JSON object.

    Raises:
        InvalidRequestError: for anything else. NaN and Infinity, which are no JSON but which some
            clients write, are named by their place.
    """
    try:
        value = pydantic_core.from_json(body)
    except ValueError as error:
        raise InvalidRequestError(
            f"The body is no valid JSON: {error}", None, "invalid_json"
        ) from None
    if not isinstance(value, dict):
        raise InvalidRequestError("The body must be a JSON object.", None, "invalid_type")
    if NOT_FINITE.search(body):
        check_finite(value)
    return value


def check_finite(value: dict[str, Any]) -> None:
    """Refuse NaN and Infinity wherever they are, also in keys that nobody reads.

    Raises:
        InvalidRequestError: with the place of one of them.
    """
    found: list[tuple[tuple[int | str, ...], Any]] = [((), value)]
    while found:
        place, element = found.pop()
        if isinstance(element, float) and not math.isfinite(element):
            param = to_path(place)[:MAX_PARAM_CHARACTERS]
            message = f"Invalid value for '{param}': it must be a finite number."
            raise InvalidRequestError(message, param, "invalid_value")
        if isinstance(element, dict):
            found += [((*place, key), inner) for key, inner in element.items()]
        elif isinstance(element, list):
            found += [((*place, index), inner) for index, inner in enumerate(element)]


def parse_model(model: type[Model], value: dict[str, Any]) -> Model:
    """A wire model of a JSON object.

    Raises:
        InvalidRequestError: for the first fault, with its path.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise to_request_error(error) from None


def to_request_error(error: ValidationError) -> InvalidRequestError:
    """The first of pydantic's complaints, as a caller can use it."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    param = to_path(first["loc"])[:MAX_PARAM_CHARACTERS]
    if first["type"] == "missing":
        return InvalidRequestError(
            f"Missing required parameter: '{param}'.", param, "missing_required_parameter"
        )
    code = "invalid_type" if first["type"].endswith("_type") else "invalid_value"
    if first["type"] == "literal_error":
        code = "unsupported_value"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "list_type" and ARRAY_BRANCH in first["loc"]:
        message = "Input should be a string or an array"
    return InvalidRequestError(f"Invalid value for '{param}': {message}.", param, code)


def to_path(location: tuple[int | str, ...]) -> str:
    """A JSON path such as `input[3].content[0].type`.

    Two kinds of pydantic's steps are no part of it: the branch of a union, which the wire models
    name like `<text>`, and `[key]`, which says that a dictionary's key is at fault.
    """
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif step != "[key]" and not step.startswith("<"):
            path += f".{step}" if path else step
    return path
