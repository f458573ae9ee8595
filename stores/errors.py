"""The stores' one error tree. Every class hands `super().__init__` all its arguments, to pickle."""


class StoreError(Exception):
    """Base of all errors that a store raises."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class StoreFaultError(StoreError):
    """The disk, or the file on it, failed; nothing of the call was done."""


class StoreRefusal(StoreError):
    """Base of what the caller did wrong: it crosses a handle as a value and is in no log."""


class StoreDisabledError(StoreRefusal):
    """The bounds allow no entry: `setting` is the one that says so."""

    def __init__(self, setting: str) -> None:
        Exception.__init__(self, setting)
        self.setting = setting
        self.message = f"Nothing is stored on this server: its setting `{setting}` is 0."

    def __str__(self) -> str:
        return self.message


class ParentGoneError(StoreRefusal):
    """The response that another was to go on from is not there, has failed, or still runs."""


class UnknownItemError(StoreRefusal):
    """No such item where it was looked for."""


class ConversationFullError(StoreRefusal):
    """A conversation would be larger than all conversations together may be."""


class HistoryTooLargeError(StoreRefusal):
    """What a response is to go on from weighs more than one request may read."""
