"""The bodies of the generating routes: read within bounds, and what of them has no effect."""

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from deployments.asgi import read_json_body
from deployments.wire.parse import parse_json_object
from deployments.wire.tools import drop_other_tools, refuse_other_tools

IGNORED = "x-antiphon-ignored"


@dataclass(frozen=True, slots=True)
class Limits:
    """What the routes bear: `max_body_bytes` of a request are read.

    `drops_other_tools` leaves tools out that are no functions, in place of refusing them.
    """

    max_body_bytes: int
    drops_other_tools: bool = False


async def read_body(request: Request, limits: Limits) -> tuple[dict[str, Any], list[str]]:
    """The body, and what the server leaves out of it.

    Raises:
        ServiceError: where it is no JSON object, or asks for tools that are not served.
    """
    body = parse_json_object(await read_json_body(request, limits.max_body_bytes))
    if limits.drops_other_tools:
        return drop_other_tools(body)
    refuse_other_tools(body)
    return body, []


def to_ignored_header(ignored: list[str]) -> dict[str, str]:
    return {IGNORED: ", ".join(ignored)} if ignored else {}
