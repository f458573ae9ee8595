"""What records weigh."""

import pytest

from stores.types import (
    ITEM_OVERHEAD_BYTES,
    RECORD_OVERHEAD_BYTES,
    REFERENCE_BYTES,
    ConversationRecord,
    ItemRecord,
    ResponseRecord,
)

TEXTS = pytest.mark.parametrize(
    ("text", "text_bytes"),
    [("", 0), ("{}", 2), ("é", 2), ("✓", 3), ("😀", 4), ("\ud83d", 3)],
    ids=["empty", "ASCII", "two bytes", "three bytes", "four bytes", "lone surrogate"],
)


@TEXTS
def test_a_record_weighs_its_text_as_utf8_and_a_constant(text: str, text_bytes: int) -> None:
    record = ResponseRecord("resp_1", "åsa", "completed", 1_700_000_000, text)
    id_bytes, owner_bytes = 6, 4
    assert record.own_bytes == RECORD_OVERHEAD_BYTES + id_bytes + owner_bytes + text_bytes
    assert record.size_bytes == record.own_bytes


@TEXTS
def test_items_weigh_their_texts_and_a_constant_and_a_reference(text: str, text_bytes: int) -> None:
    item = ItemRecord("msg_1", text)
    assert item.size_bytes == ITEM_OVERHEAD_BYTES + 5 + text_bytes
    record = ResponseRecord("a", "b", "completed", 1, "", input=(item,), output=(item,))
    assert record.size_bytes == record.own_bytes + 2 * (item.size_bytes + REFERENCE_BYTES)


@TEXTS
def test_a_conversation_weighs_its_metadata_and_a_constant(text: str, text_bytes: int) -> None:
    record = ConversationRecord("conv_1", "åsa", 1_700_000_000, text)
    assert record.own_bytes == RECORD_OVERHEAD_BYTES + 6 + 4 + text_bytes
