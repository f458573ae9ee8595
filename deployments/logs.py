"""Sends our log records where Serve sends its own: JSON, with the request's id and the replica."""

import logging

OURS = ("configs", "deployments", "engine", "stores")


def join_serve_logs() -> None:
    """Called once in a replica: Serve gives handlers to its own logger alone.

    A record that cannot be written, as on a full disk, is dropped: `logging` would tell of it on
    stderr, which Serve makes a record of, and so on until the request at hand fails.
    """
    logging.raiseExceptions = False
    serve_logger = logging.getLogger("ray.serve")
    for name in OURS:
        logger = logging.getLogger(name)
        logger.handlers = list(serve_logger.handlers)
        logger.setLevel(serve_logger.level)
        logger.propagate = False
