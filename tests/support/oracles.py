"""Two judges of what we send: the Open Responses contract, and the types of openai's client.

Both want the types of their members and the required ones. What we do otherwise is data: each
difference names its place and its reason, and what is in no table is an error.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.support.schemas import Checker, Finding, Kind, Schema

CONTRACT = Path(__file__).parents[1] / "contract" / "openapi.json"


@dataclass(frozen=True)
class Difference:
    """What we do otherwise than a judge says, and why; `where` as in `Finding`.

    An event with a name of its own is held against the judge's event of the name `instead`.
    """

    where: str
    kind: Kind
    why: str
    instead: str | None = None

    @property
    def finding(self) -> Finding:
        return Finding(self.where, self.kind)


@dataclass(frozen=True)
class Oracle:
    """A judge by two schemas, each read when it is first needed, and what we do otherwise."""

    name: str
    read_event: Callable[[], Checker]
    read_resource: Callable[[], Checker]
    differences: tuple[Difference, ...]

    @cached_property
    def event(self) -> Checker:
        return self.read_event()

    @cached_property
    def resource(self) -> Checker:
        return self.read_resource()

    def check_event(self, data: Any) -> set[Finding]:
        """The differences that an event of a stream makes use of.

        Raises:
            AssertionError: where it has another.
        """
        for difference in self.differences:
            if difference.instead and difference.where == f"{data.get('type')}.type":
                renamed = {**data, "type": difference.instead}
                return {difference.finding} | self._check(self.event.find(renamed))
        return self._check(self.event.find(data))

    def check_resource(self, body: Any) -> set[Finding]:
        """The differences that a response makes use of.

        Raises:
            AssertionError: where it has another.
        """
        return self._check(self.resource.find(body))

    def _check(self, findings: Iterable[Finding]) -> set[Finding]:
        found = set(findings)
        unknown = found - {difference.finding for difference in self.differences}
        assert not unknown, f"{self.name}: {sorted(unknown)}"
        return found


def check_event(data: Any) -> None:
    """Hold an event of a stream against both judges.

    Raises:
        AssertionError: where it has a difference that is in no table.
    """
    for oracle in ORACLES:
        oracle.check_event(data)


def check_resource(body: Any) -> None:
    """Hold a response, as a body or inside an event, against both judges.

    Raises:
        AssertionError: where it has a difference that is in no table.
    """
    for oracle in ORACLES:
        oracle.check_resource(body)


def _read_contract(media_type: str) -> Checker:
    document: Schema = json.loads(CONTRACT.read_text())
    reply = document["paths"]["/responses"]["post"]["responses"]["200"]
    return Checker(document, reply["content"][media_type]["schema"])


def _read_types(types: Any) -> Checker:
    schema = TypeAdapter(types).json_schema()
    return Checker(schema, schema)


CONTRACT_ORACLE = Oracle(
    "Open Responses",
    lambda: _read_contract("text/event-stream"),
    lambda: _read_contract("application/json"),
    (
        Difference("response.output_text", "extra", "clients without a helper read the text there"),
        Difference("response.user", "extra", "repeated where it was sent, as OpenAI does"),
        Difference(
            "response.usage.input_tokens_details.cache_write_tokens",
            "extra",
            "openai's types require it",
        ),
        Difference(
            "json_schema.schema", "value", "the schema is repeated; the contract wants null"
        ),
        Difference("reasoning.status", "extra", "openai's types have it; all our items carry one"),
        Difference(
            "response.reasoning_text.delta.type",
            "value",
            "OpenAI's name, which its clients know",
            instead="response.reasoning.delta",
        ),
        Difference(
            "response.reasoning_text.done.type",
            "value",
            "OpenAI's name, which its clients know",
            instead="response.reasoning.done",
        ),
        Difference(
            "response.function_call_arguments.done.name", "extra", "openai-node's types require it"
        ),
    ),
)

OPENAI_ORACLE = Oracle(
    "openai-python",
    lambda: _read_types(ResponseStreamEvent),
    lambda: _read_types(Response),
    (
        Difference("response.output_text", "extra", "its types have a property for it, no field"),
        Difference("response.presence_penalty", "extra", "the contract requires it"),
        Difference("response.frequency_penalty", "extra", "the contract requires it"),
        Difference("response.store", "extra", "the contract requires it"),
        Difference(
            "response.function_call_arguments.done.name", "extra", "openai-node's types require it"
        ),
        *(
            Difference(
                f"response.output_text.{step}.logprobs.*.{bytes_of}",
                "extra",
                "the contract requires it, and openai's own types do in a part",
            )
            for step in ("delta", "done")
            for bytes_of in ("bytes", "top_logprobs.*.bytes")
        ),
    ),
)

ORACLES = (CONTRACT_ORACLE, OPENAI_ORACLE)


def judge(oracle: Oracle, events: Iterable[Any]) -> set[Finding]:
    """The differences that a stream makes use of, in its events and the responses inside them.

    Raises:
        AssertionError: where it has another.
    """
    used: set[Finding] = set()
    for event in events:
        used |= oracle.check_event(event)
        if "response" in event:
            used |= oracle.check_resource(event["response"])
    return used
