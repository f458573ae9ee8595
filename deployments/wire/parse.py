"""Bytes of a request body to a checked wire model; every fault is an error that names its place."""

import math
from typing import Any, TypeVar

import pydantic_core
from pydantic import BaseModel, ValidationError

from deployments.errors import InvalidRequestError
from deployments.wire.base import MISSING, NO_OBJECT, NO_WORD, UNSUPPORTED

Model = TypeVar("Model", bound=BaseModel)
Place = tuple[int | str, ...]

MAX_PARAM_CHARACTERS = 256  # a path may hold a key that the client made up
MAX_TYPE_CHARACTERS = 64  # what is repeated of a type that nobody knows
MAX_BRACKETS = 1_000_000  # that open something, strings included: eleven million take seconds
MAX_SEARCHED_BYTES = 2**20  # of a body with NaN or Infinity: a search takes longer than a parse

# How wire models name the branches of unions with a string. A choice is a word or an object.
BRANCH_KINDS = {"<array>": "a string or an array", "<object>": "a string or an object"}
WORD = "<word>"


def parse_json_object(body: bytes) -> dict[str, Any]:
    """A JSON object.

    Raises:
        InvalidRequestError: for anything else. NaN and Infinity, which are no JSON but which some
            clients write, are named by their place.
    """
    if body.count(b"[") + body.count(b"{") > MAX_BRACKETS:
        raise InvalidRequestError(
            f"The body has more than {MAX_BRACKETS} opening brackets.", None, "invalid_value"
        )
    try:
        value = pydantic_core.from_json(body, allow_inf_nan=False)
    except ValueError as error:
        refuse_not_finite(body)
        raise InvalidRequestError(
            f"The body is no valid JSON: {error}", None, "invalid_json"
        ) from None
    if not isinstance(value, dict):
        raise InvalidRequestError("The body must be a JSON object.", None, "invalid_type")
    return value


def refuse_not_finite(body: bytes) -> None:
    """Refuse NaN and Infinity by their place, where they are what keeps a body from being JSON.

    Raises:
        InvalidRequestError: with the first place, also in keys that nobody reads.
    """
    if len(body) > MAX_SEARCHED_BYTES:
        return
    try:
        value = pydantic_core.from_json(body)
    except ValueError:
        return
    place = find_not_finite(value)
    if place:
        param = to_path(place, value)[:MAX_PARAM_CHARACTERS]
        message = f"Invalid value for '{param}': it must be a finite number."
        raise InvalidRequestError(message, param, "invalid_value")


def find_not_finite(value: Any, place: Place = ()) -> Place | None:
    """Where the first number that is none stands; the parser bounds how deep this goes."""
    if isinstance(value, float):
        return None if math.isfinite(value) else place
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    for step, inner in steps:
        if isinstance(inner, float | dict | list):
            found = find_not_finite(inner, (*place, step))
            if found is not None:
                return found
    return None


def parse_model(model: type[Model], value: dict[str, Any]) -> Model:
    """A wire model of a JSON object.

    Raises:
        InvalidRequestError: for the first fault, with its path.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise to_request_error(error, value) from None


def to_request_error(error: ValidationError, value: Any) -> InvalidRequestError:
    """The first of pydantic's complaints about a value, as a caller can use it."""
    first = error.errors(include_url=False, include_input=False)[0]
    kind, place, context = first["type"], first["loc"], first.get("ctx", {})
    path = to_path(place, value)
    if kind.startswith("union_tag_") and context.get("tag") != NO_OBJECT:
        path += ".type"
    param = path[:MAX_PARAM_CHARACTERS]
    if kind in ("missing", "union_tag_not_found"):
        return InvalidRequestError(f"Missing required parameter: '{param}'.", param, MISSING)
    message = describe(kind, place, context) or first["msg"].removeprefix("Value error, ")
    return InvalidRequestError(
        f"Invalid value for '{param}': {message}.", param, to_code(kind, context)
    )


def to_code(kind: str, context: dict[str, Any]) -> str:
    """Our code for a kind of pydantic's errors, or of those that wire models raise as it is."""
    if kind in (MISSING, UNSUPPORTED):
        return kind
    if kind == "union_tag_invalid":
        return "invalid_type" if context["tag"] in (NO_OBJECT, NO_WORD) else UNSUPPORTED
    if kind == "literal_error":
        return UNSUPPORTED
    return "invalid_type" if kind.endswith("_type") else "invalid_value"


def describe(kind: str, place: Place, context: dict[str, Any]) -> str | None:
    """What is wrong, where pydantic would say it in words of Python."""
    branch = place[-1] if place else None
    match kind:
        case "union_tag_invalid":
            return describe_tags(context)
        case "list_type" | "model_type" | "dict_type" if branch in BRANCH_KINDS:
            return f"Input should be {BRANCH_KINDS[str(branch)]}"
        case "list_type":
            return "Input should be an array"
        case "model_type" | "dict_type":
            return "Input should be an object"
        case "too_long":
            return (
                f"it has {context['actual_length']} elements; {context['max_length']} are the most"
            )
        case "too_short":
            return f"it must have at least {context['min_length']} element"
        case _:
            return None


def describe_tags(context: dict[str, Any]) -> str:
    """What a value that may be of several types is, and what it may be."""
    tag, expected = str(context["tag"]), str(context["expected_tags"]).split(", ")
    if tag == NO_OBJECT:
        return f"Input should be {'a string or ' if repr(WORD) in expected else ''}an object"
    if tag == NO_WORD:
        return "Input should be a valid string"
    known = ", ".join(
        name.replace("<", "").replace(">", "") for name in expected if WORD not in name
    )
    return f"'{tag[1:-1][:MAX_TYPE_CHARACTERS]}' is not supported; it may be {known}"


def to_path(place: Place, value: Any) -> str:
    """The JSON path of a place in a value, such as `input[3].content[0].type`.

    Two kinds of pydantic's steps are no part of it: the branch of a union, which the wire models
    name like `<text>`, and `[key]`, which says that a dictionary's key is at fault. A client's own
    key may look like them. An object may nest its fields under the name of its type.
    """
    path = ""
    for step in place:
        if isinstance(step, int):
            path += f"[{step}]"
            value = value[step] if isinstance(value, list) and step < len(value) else None
            continue
        members = value if isinstance(value, dict) else {}
        if step not in members:
            if step == "[key]" or (step.startswith("<") and step.endswith(">")):
                continue
            nest = members.get("type")
            if isinstance(nest, str) and isinstance(members.get(nest), dict):
                path += f".{nest}" if path else nest
                members = members[nest]
        path += f".{step}" if path else step
        value = members.get(step)
    return path
