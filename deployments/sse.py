"""Server-sent events as bytes: https://html.spec.whatwg.org/multipage/server-sent-events.html."""

from typing import Any

import pydantic_core

DONE = b"data: [DONE]\n\n"
COMMENT = b": still here\n\n"  # a sign of life that no client takes for an event


def encode_json(value: Any) -> bytes:
    """Compact JSON in UTF-8, without escapes that a JSON string does not need.

    NaN and the infinities, which are no JSON, become null: a stream must not break in its middle.

    Raises:
        ValueError: for what is no JSON at all, and for lone surrogates, which no UTF-8 can hold.
    """
    return pydantic_core.to_json(value, inf_nan_mode="null")


def encode_event(name: str, data: Any) -> bytes:
    """One event of a stream, `data` as one line of JSON (which never holds a raw line end)."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), encode_json(data))


def encode_data(data: Any) -> bytes:
    """One event without a name, as Chat Completions has them."""
    return b"data: %b\n\n" % encode_json(data)


def split_events(written: bytes) -> list[bytes]:
    """What a writer gave, an event each: readers that take a write for an event are not misled."""
    return [event + b"\n\n" for event in written.split(b"\n\n") if event]
