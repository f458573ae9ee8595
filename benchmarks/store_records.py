"""Records for the store as real ones look: always the same for one number, and never kept here."""

import json
import random
from functools import cache
from typing import Final

from benchmarks.exchange import WORDS
from stores.types import ItemRecord, RecordStatus, ResponseRecord

OWNER: Final = "owner"
TEXT_BYTES: Final = 4_000_000
CREATED_AT: Final = 1_800_000_000

# What a response repeats of its request and says of itself, beside its items.
BODY: Final = {
    "response": {"model": "model", "usage": {"input_tokens": 4000, "output_tokens": 1000}},
    "echo": {
        "instructions": "Answer in whole sentences. " * 20,
        "metadata": {"user": "0b6f5d7c", "session": "a1e2c3"},
        "temperature": 0.7,
        "tools": [],
    },
}


@cache
def make_text() -> str:
    """A long text of random words, from which the records take their pieces."""
    rng = random.Random("records")
    return " ".join(rng.choices(WORDS, k=TEXT_BYTES // 6))


def cut_text(number: int, num_bytes: int) -> str:
    """A piece of the text that only a record of that number has."""
    text = make_text()
    begin = number * 7919 % (len(text) - num_bytes)
    return text[begin : begin + num_bytes]


def to_id(number: int) -> str:
    return f"resp_{number:032x}"


def make_record(number: int, num_bytes: int, parent: int | None = None) -> ResponseRecord:
    """A completed response of about `num_bytes`, half of them in its input, half in its output."""
    half = max(1, (num_bytes - len(json.dumps(BODY))) // 2)
    asked, said = cut_text(2 * number, half), cut_text(2 * number + 1, half)
    message = {"role": "user", "content": [{"type": "input_text", "text": asked}]}
    answer = {"kind": "message", "content": [{"text": said}], "status": "completed"}
    return ResponseRecord(
        response_id=to_id(number),
        owner=OWNER,
        status="completed",
        created_at=CREATED_AT + number,
        body=json.dumps({"id": to_id(number), **BODY}),
        parent_id=None if parent is None else to_id(parent),
        input=(ItemRecord(f"msg_{2 * number:032x}", json.dumps(message)),),
        output=(ItemRecord(f"msg_{2 * number + 1:032x}", json.dumps(answer)),),
    )


def as_begun(record: ResponseRecord) -> ResponseRecord:
    """The record of the same response when it began."""
    status: RecordStatus = "in_progress"
    return ResponseRecord(
        response_id=record.response_id,
        owner=record.owner,
        status=status,
        created_at=record.created_at,
        body=record.body,
        parent_id=record.parent_id,
        input=record.input,
    )
