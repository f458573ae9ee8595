"""Walks over the project's own classes."""

OURS = ("configs.", "deployments.", "engine.", "stores.")


def all_subclasses(base: type) -> list[type]:
    """The project's classes below `base`, without it."""
    below = [c for child in base.__subclasses__() for c in (child, *all_subclasses(child))]
    return [c for c in below if c.__module__.startswith(OURS)]
