"""The one error of this layer: a mistake in settings, worded for the person who made it."""


class SettingsError(Exception):
    """A setting, an environment variable or a file of ours is wrong; the message says why."""
