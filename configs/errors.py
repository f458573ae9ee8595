"""The one error of this layer: a mistake in settings, worded for the person who made it."""


class SettingsError(Exception):
    """Settings, an environment variable or a file of ours are wrong; the message says which and why."""
