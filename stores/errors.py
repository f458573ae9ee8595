"""The stores' one error tree. Every class hands `super().__init__` all its arguments, to pickle."""


class StoreError(Exception):
    """Base of all errors that a store raises."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class StoreDisabledError(StoreError):
    """The bounds allow no entry: `setting` is the one that says so."""

    def __init__(self, setting: str) -> None:
        Exception.__init__(self, setting)
        self.setting = setting
        self.message = f"Nothing is stored on this server: its setting `{setting}` is 0."

    def __str__(self) -> str:
        return self.message
