"""What a record weighs."""

import pytest

from stores.types import RECORD_OVERHEAD_BYTES, ResponseRecord


@pytest.mark.parametrize(
    ("body", "body_bytes"),
    [("", 0), ("{}", 2), ("é", 2), ("✓", 3), ("😀", 4), ("\ud83d", 3)],
    ids=["empty", "ASCII", "two bytes", "three bytes", "four bytes", "lone surrogate"],
)
def test_a_record_weighs_its_text_as_utf8_and_a_constant(body: str, body_bytes: int) -> None:
    record = ResponseRecord("resp_1", "åsa", "completed", 1_700_000_000, body)
    id_bytes, owner_bytes = 6, 4
    assert record.size_bytes == RECORD_OVERHEAD_BYTES + id_bytes + owner_bytes + body_bytes
