"""Many bad bodies before one server: to start one for each takes longer than to refuse it."""

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import httpx2

Json = dict[str, Any]
Fault = tuple[Json, str]
"""Changes to a good body, and the code of the refusal."""


def sort_by_param(bad: Iterable[tuple[Json, str, str]]) -> dict[str, list[Fault]]:
    """The faults of each place, under the `param` of their refusals."""
    faults = defaultdict[str, list[Fault]](list)
    for changes, param, code in bad:
        faults[param].append((changes, code))
    return dict(faults)


async def send(http: httpx2.AsyncClient, path: str, body: Json) -> tuple[int, Json]:
    """Status and error of a reply, no error where there is none.

    The body is written by Python's own encoder: the client's refuses NaN and Infinity.
    """
    reply = await http.post(path, content=json.dumps(body))
    if reply.status_code == 200:
        return 200, {}
    error: Json = reply.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert len(reply.content) < 1000
    return reply.status_code, error


def check_bad(told: tuple[int, Json], changes: Json, param: str, code: str) -> str:
    """The message to a body with these changes, refused at this place and for this reason.

    Raises:
        AssertionError: where it was not; it names the changes.
    """
    status, error = told
    found = (status, error.get("type"), error.get("param"), error.get("code"))
    assert found == (400, "invalid_request_error", param, code), shorten(changes)
    message: str = error["message"]
    assert len(message) < 700, shorten(changes)
    return message


def shorten(changes: Json) -> str:
    """Changes for a person: of long ones both ends, since one is inside and one around."""
    text = str(changes)
    return text if len(text) <= 400 else f"{text[:200]} … {text[-200:]}"
