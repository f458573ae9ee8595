"""Responses and items to the store's records and back."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from deployments.resource.codec import decode_item, decode_stored, encode_item, encode_stored
from deployments.resource.response import (
    GivenItem,
    OutputItem,
    Response,
    ResponseFailure,
    StoredResponse,
)
from stores.types import ItemRecord, ResponseRecord


@dataclass(frozen=True, slots=True)
class RunningCall:
    """What an ingress tells of a response that it begins, or that still runs in it."""

    record: ResponseRecord
    model: str
    is_stored: bool


def to_record(stored: StoredResponse, owner: str) -> ResponseRecord:
    """The record of a response, without what it goes on from and was asked."""
    response = stored.response
    return ResponseRecord(
        response_id=response.response_id,
        owner=owner,
        status=response.status,
        created_at=response.created_at,
        body=encode_stored(replace(stored, response=replace(response, output=()))),
        output=tuple(to_item_record(item) for item in response.output),
    )


def to_stored(record: ResponseRecord) -> StoredResponse:
    stored = decode_stored(record.body)
    output = tuple(to_output_items(record.output))
    return replace(stored, response=replace(stored.response, output=output))


def to_item_record(item: OutputItem | GivenItem) -> ItemRecord:
    return ItemRecord(item.item_id, encode_item(item))


def to_output_items(records: Iterable[ItemRecord]) -> Iterable[OutputItem]:
    for record in records:
        item = decode_item(record.item_id, record.body)
        assert not isinstance(item, GivenItem), "an output is made here"
        yield item


def with_end(begun: ResponseRecord, ended: ResponseRecord) -> ResponseRecord:
    """The record of a response that has ended, with what its beginning went on from."""
    return replace(
        ended, parent_id=begun.parent_id, conversation=begun.conversation, input=begun.input
    )


def to_lost(record: ResponseRecord) -> ResponseRecord:
    """The final record of a response whose ingress has died."""
    stored = to_stored(record)
    failure = ResponseFailure("server_error", "The server lost this response.", is_temporary=True)
    response = replace(stored.response, status="failed", failure=failure)
    ended = to_record(replace(stored, response=response), record.owner)
    return replace(record, status="failed", body=ended.body)


def to_unstored_record(record: ResponseRecord) -> ResponseRecord:
    """The record of a response whose caller has been told that it could not be stored."""
    stored = to_stored(record)
    told = replace(stored, response=to_unstored(stored.response))
    return with_end(record, to_record(told, record.owner))


def to_unstored(response: Response) -> Response:
    """A response that was to be stored and is not: whatever it was, it has failed."""
    return replace(
        response,
        status="failed",
        completed_at=None,
        incomplete_reason=None,
        failure=ResponseFailure("server_error", "The response could not be stored."),
    )
