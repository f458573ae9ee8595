"""Walks over the project's own classes."""

OURS = ("configs.", "deployments.", "engine.", "stores.")


def all_subclasses(base: type) -> list[type]:
    """The project's classes below `base`, without it."""
    children: list[type] = base.__subclasses__()
    below = [kind for child in children for kind in (child, *all_subclasses(child))]
    return [kind for kind in below if kind.__module__.startswith(OURS)]
