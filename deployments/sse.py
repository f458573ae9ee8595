"""Server-sent events as bytes: https://html.spec.whatwg.org/multipage/server-sent-events.html."""

import json
from typing import Any

DONE = b"data: [DONE]\n\n"


def to_json(value: Any) -> str:
    """Compact JSON in UTF-8, without escapes that a JSON string does not need.

    Raises:
        ValueError: for NaN and the infinities, which are no JSON.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def encode_event(name: str, data: Any) -> bytes:
    """One event of a stream, `data` as one line of JSON (which never holds a raw line end)."""
    return f"event: {name}\ndata: {to_json(data)}\n\n".encode()
