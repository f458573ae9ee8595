"""The stores' errors cross process boundaries whole."""

import pickle

import pytest

from stores import errors
from stores.errors import (
    ConversationFullError,
    HistoryTooLargeError,
    ParentGoneError,
    StoreDisabledError,
    StoreError,
    StoreFaultError,
    StoreRefusal,
    UnknownItemError,
)

EXAMPLES = [
    StoreError("out of order"),
    StoreFaultError("out of order"),
    StoreRefusal("no"),
    StoreDisabledError("responses_store_max_entries"),
    ParentGoneError("gone"),
    UnknownItemError("unknown"),
    ConversationFullError("full"),
    HistoryTooLargeError("large"),
]


def test_the_examples_are_all_classes() -> None:
    classes = {c for c in vars(errors).values() if isinstance(c, type)}
    assert {type(example) for example in EXAMPLES} == classes


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda e: type(e).__name__)
def test_an_error_survives_pickling(error: StoreError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (copy.args, vars(copy), str(copy)) == (error.args, vars(error), str(error))


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda e: type(e).__name__)
def test_an_error_reads_as_its_message(error: StoreError) -> None:
    assert str(error) == error.message


def test_a_disabled_store_says_which_setting_is_to_blame() -> None:
    error = StoreDisabledError("responses_store_max_entries")
    assert str(error) == (
        "Nothing is stored on this server: its setting `responses_store_max_entries` is 0."
    )
