"""Stored responses as JSON: it keeps what a response is, not how one protocol spells it."""

from pydantic import BaseModel, ConfigDict, Json

from deployments.resource.response import RequestEcho, Response, StoredResponse


class _Stored(BaseModel):
    """The bytes of tokens, which need not be UTF-8, as base64; infinite log probabilities as such.

    The echo is JSON in a string: it repeats schemas of the request as deep as a parser goes, and
    must not be deeper here than it was there.
    """

    model_config = ConfigDict(
        ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="constants"
    )
    response: Response
    echo: Json[RequestEcho]


def encode_stored(stored: StoredResponse) -> str:
    body = _Stored.model_construct(response=stored.response, echo=stored.echo)
    return body.model_dump_json(round_trip=True)


def decode_stored(body: str) -> StoredResponse:
    """The inverse of `encode_stored`.

    Raises:
        pydantic.ValidationError: where the body is none of ours.
    """
    stored = _Stored.model_validate_json(body)
    return StoredResponse(stored.response, stored.echo)
