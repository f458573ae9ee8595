"""Where a JSON value leaves a schema: at which member, and how. Members nobody declared count too.

The schemas of unions are turned about first, so that a value is held against the one branch that
its `type` names: what is found then has a place inside it, not at the union.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend

Schema = dict[str, Any]
Kind = Literal["extra", "missing", "value"]


@dataclass(frozen=True, order=True)
class Finding:
    """`where` begins at the innermost object that says its `type`, as in `reasoning.status`.

    An `extra` member is not declared, a `missing` one is required, a `value` is not allowed.
    """

    where: str
    kind: Kind


class Checker:
    """`#/…` references of `schema` are looked up in `document`."""

    def __init__(self, document: Schema, schema: Schema) -> None:
        turned = _turn({**document, "$schema": Draft202012Validator.META_SCHEMA["$id"]}, document)
        root = {**turned, **_turn(schema, document)}
        self._validator: Validator = _Strict(root)

    def find(self, value: Any) -> Iterator[Finding]:
        for error in self._validator.iter_errors(value):
            yield from _to_findings(error, value)


def _is_integer(_: object, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _match_type(
    validator: Any, branches: dict[str, Schema], value: Any, _: Schema
) -> Iterator[ValidationError]:
    """The keyword `branchOfType`: of all branches, the one that an object's `type` names."""
    name = value.get("type")
    if isinstance(name, str) and name in branches:
        yield from validator.descend(value, branches[name])


# In JSON Schema 1.0 is an integer; in the types of a client it is not.
_Strict: type[Validator] = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    validators={"branchOfType": _match_type},
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)


def _turn(schema: Any, document: Schema) -> Any:
    """The schema with closed objects, and with unions that decide by `type`."""
    if isinstance(schema, list):
        return [_turn(each, document) for each in schema]
    if not isinstance(schema, dict):
        return schema
    turned = {key: _turn(value, document) for key, value in schema.items()}
    if isinstance(turned.get("properties"), dict) and turned.get("type") == "object":
        turned["additionalProperties"] = False
    for union in ("anyOf", "oneOf"):
        if isinstance(turned.get(union), list):
            decided = _decide(turned.pop(union), document)
            turned = {**turned, **decided}
    return turned


def _decide(branches: list[Schema], document: Schema) -> Schema:
    """A union as the one branch that can be meant: null, else by `type`, else any of the rest."""
    if {"type": "null"} in branches:
        rest = [branch for branch in branches if branch != {"type": "null"}]
        is_null: Schema = {"type": "null"}
        return {"if": is_null, "else": _decide(rest, document)} if rest else is_null
    if len(branches) == 1:
        return branches[0]
    typed: dict[str, list[Schema]] = {}
    rest = []
    for branch in branches:
        names = _type_names(branch, document)
        for name in names:
            typed.setdefault(name, []).append(branch)
        if not names:
            rest.append(branch)
    if any(_resolve(branch, document).get("type") in (None, "object") for branch in rest):
        return {"anyOf": branches}
    if not typed:
        return {"anyOf": rest}
    return {"if": {"type": "object"}, "then": _by_type(typed), "else": {"anyOf": [*rest, False]}}


def _by_type(typed: dict[str, list[Schema]]) -> Schema:
    """An object's `type` must be one of these, and the object must fit what that one asks."""
    return {
        "properties": {"type": {"enum": list(typed)}},
        "required": ["type"],
        "branchOfType": {
            name: branches[0] if len(branches) == 1 else {"anyOf": branches}
            for name, branches in typed.items()
        },
    }


def _type_names(branch: Schema, document: Schema) -> list[str]:
    """What a branch allows its values' `type` to be; nothing where it does not say."""
    kind = _resolve(branch, document).get("properties", {}).get("type", {})
    return [kind["const"]] if "const" in kind else list(kind.get("enum", []))


def _resolve(schema: Schema, document: Schema) -> Schema:
    while "$ref" in schema:
        found: Any = document
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        schema = found
    return schema


def _to_findings(error: ValidationError, value: Any) -> Iterator[Finding]:
    path = [*error.absolute_path]
    schema: Any = error.schema
    instance: Any = error.instance
    match error.validator:
        case "additionalProperties":
            for name in sorted(instance.keys() - schema["properties"].keys()):
                yield Finding(_place([*path, name], value), "extra")
        case "required":
            # One error a member; which one it is stands only in its text.
            for name in schema["required"]:
                if error.message.startswith(repr(name)):
                    yield Finding(_place([*path, name], value), "missing")
        case _:
            yield Finding(_place(path, value), "value")


def _place(path: list[str | int], value: Any) -> str:
    """A path that starts anew inside each object that says its type; an index is a `*`."""
    place: list[str] = []
    for step in path:
        place = _name(value) or place
        place.append(step if isinstance(step, str) else "*")
        value = value.get(step) if isinstance(value, dict) else value[step]
    return ".".join(place)


def _name(value: Any) -> list[str]:
    """What an object calls itself: an event, an item or a part by its type, or the response."""
    if not isinstance(value, dict):
        return []
    if value.get("object") == "response":
        return ["response"]
    return [value["type"]] if isinstance(value.get("type"), str) else []
