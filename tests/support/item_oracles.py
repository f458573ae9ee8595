"""The judges of lists of items: the Open Responses contract, and the types of openai's client."""

import json
from typing import Any

from openai.types.conversations import ConversationItemList
from openai.types.responses import ResponseItemList
from pydantic import TypeAdapter

from tests.support.oracles import CONTRACT, Difference
from tests.support.schemas import Checker, Finding, Schema

Json = dict[str, Any]

STATUS = "openai's types have it; all our items carry one"
CONTRACT_DIFFERENCES = (Difference("reasoning.status", "extra", STATUS),)


def find(checker: Checker, value: Any) -> set[Finding]:
    return set(checker.find(value))


def read_contract_item() -> Checker:
    document: Schema = json.loads(CONTRACT.read_text())
    return Checker(document, {"$ref": "#/components/schemas/ItemField"})


def read_types(types: Any) -> Checker:
    schema = TypeAdapter(types).json_schema()
    return Checker(schema, schema)
