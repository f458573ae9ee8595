"""Sends our log records where Serve sends its own: JSON, with the request's id and the replica."""

import logging

OURS = ("configs", "deployments", "engine", "stores")


def join_serve_logs() -> None:
    """Called once in a replica: Serve gives handlers to its own logger alone."""
    serve_logger = logging.getLogger("ray.serve")
    for name in OURS:
        logger = logging.getLogger(name)
        logger.handlers = list(serve_logger.handlers)
        logger.setLevel(serve_logger.level)
        logger.propagate = False
