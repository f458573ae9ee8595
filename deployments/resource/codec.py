"""Stored responses as JSON: it keeps what a response is, not how one protocol spells it."""

from pydantic import TypeAdapter

from deployments.resource.response import StoredResponse

_STORED = TypeAdapter(StoredResponse)


def encode_stored(stored: StoredResponse) -> str:
    return _STORED.dump_json(stored).decode()


def decode_stored(body: str) -> StoredResponse:
    """The inverse of `encode_stored`.

    Raises:
        pydantic.ValidationError: where the body is none of ours.
    """
    return _STORED.validate_json(body)
