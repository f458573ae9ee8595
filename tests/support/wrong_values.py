"""Values that a wire model does not take, worked out from its JSON schema.

So a new field is covered at once. Each comes with the code of its refusal.
"""

from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]
WrongValue = tuple[str, Any, str]
"""A field, a value that it does not take, and the code."""

INVALID, WRONG_TYPE = "invalid_value", "invalid_type"
WORDS = "unsupported_value"
MISSING = "missing_required_parameter"

ONE_OF_EACH_KIND: dict[str, Any] = {
    "boolean": True,
    "integer": 1,
    "number": 1.5,
    "string": "1",
    "array": [],
    "object": {},
    "null": None,
}


def find_fields(model: type[BaseModel]) -> dict[str, Schema]:
    fields: dict[str, Schema] = model.model_json_schema()["properties"]
    return fields


def find_required(model: type[BaseModel]) -> list[str]:
    required: list[str] = model.model_json_schema().get("required", [])
    return required


def list_branches(schema: Schema) -> list[Schema]:
    """A field's schema, and what it is a union of."""
    inner = [*schema.get("anyOf", []), *schema.get("oneOf", [])]
    return [schema, *(branch for each in inner for branch in list_branches(each))]


def list_words(schema: Schema) -> list[str]:
    """The words that a field takes, where it lists them."""
    branches = list_branches(schema)
    return [
        word for each in branches for word in [*each.get("enum", []), each.get("const")] if word
    ]


def list_kinds(schema: Schema) -> set[str]:
    """The kinds of JSON values that a field takes, beside words that it lists."""
    kinds = set()
    for branch in list_branches(schema):
        if "$ref" in branch:
            kinds.add("object")
        if "type" in branch and not branch.keys() & {"enum", "const"}:
            kinds.add(branch["type"])
    return kinds | {"integer"} if "number" in kinds else kinds


def list_wrong_types(fields: dict[str, Schema]) -> list[WrongValue]:
    """Every field with one value of each kind that it does not take."""
    return [
        (name, value, to_code(schema, value))
        for name, schema in fields.items()
        for kind, value in ONE_OF_EACH_KIND.items()
        if kind not in list_kinds(schema)
    ]


def to_code(schema: Schema, value: object) -> str:
    """A value is none of the words that a field lists, or it is of a wrong type altogether."""
    is_list_of_words = not list_kinds(schema) - {"null"}
    return WORDS if is_list_of_words or (list_words(schema) and value == "1") else WRONG_TYPE


def find_numbers(fields: dict[str, Schema]) -> dict[str, Schema]:
    """The branches that take a number, with their bounds, by the names of their fields."""
    return {
        name: branch
        for name, schema in fields.items()
        for branch in list_branches(schema)
        if branch.get("type") in ("integer", "number")
    }


def list_bad_numbers(fields: dict[str, Schema]) -> list[WrongValue]:
    """For every number: what lies just beyond its range or far away, and what is none.

    Every number has a range, or this fails: an unbounded one reaches the engine whatever it is.
    """
    bad: list[WrongValue] = []
    for name, schema in find_numbers(fields).items():
        low, high = schema["minimum"], schema["maximum"]
        step = 1 if schema["type"] == "integer" else 1e-9
        candidates = [low - step, high + step, -1, 2**63, -(2**63) - 1]
        bad += [(name, value, INVALID) for value in candidates if not low <= value <= high]
        bad += [(name, value, WRONG_TYPE) for value in ("1", True, [1], {"1": 1})]
    return bad


def list_good_numbers(fields: dict[str, Schema]) -> list[dict[str, Any]]:
    """Both ends of every number's range, and null, which is the same as absent."""
    return [
        {name: value}
        for name, schema in find_numbers(fields).items()
        for value in (schema["minimum"], schema["maximum"], None)
    ]


def list_bad_texts(fields: dict[str, Schema]) -> list[WrongValue]:
    """For every text with bounds: one too long, an empty one, one of other characters."""
    bad: list[WrongValue] = []
    for name, schema in fields.items():
        for branch in list_branches(schema):
            if "maxLength" in branch:
                bad.append((name, "a" * (branch["maxLength"] + 1), INVALID))
            if "minLength" in branch or "pattern" in branch:
                bad.append((name, "", INVALID))
            if "pattern" in branch:
                bad += [(name, text, INVALID) for text in ("a b", "ä", "a\n", "<a>")]
    return bad
