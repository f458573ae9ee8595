"""Stored responses as JSON: it keeps what a response is, not how one protocol spells it."""

from pydantic import BaseModel, ConfigDict, Json

from deployments.resource.response import (
    GivenItem,
    OutputItem,
    RequestEcho,
    Response,
    StoredResponse,
)

GIVEN = '{"given":'


class _Kept(BaseModel):
    """The bytes of tokens, which may be no UTF-8, as base64; infinite log probabilities as such."""

    model_config = ConfigDict(
        ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="constants"
    )


class _Stored(_Kept):
    """The echo is JSON in a string: it repeats schemas of the request as deep as a parser goes, and
    must not be deeper here than it was there.
    """

    response: Response
    echo: Json[RequestEcho]


class _Output(_Kept):
    output: OutputItem


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


def encode_item(item: OutputItem | GivenItem) -> str:
    """An item as JSON: of an output as it is inside, of an input as the contract spells it."""
    if isinstance(item, GivenItem):
        return f"{GIVEN}{item.text}}}"
    return _Output.model_construct(output=item).model_dump_json(round_trip=True)


def decode_item(item_id: str, body: str) -> OutputItem | GivenItem:
    """The inverse of `encode_item`.

    Raises:
        pydantic.ValidationError: where the body is none of ours.
    """
    if body.startswith(GIVEN):
        return GivenItem(item_id, body[len(GIVEN) : -1])
    return _Output.model_validate_json(body).output
