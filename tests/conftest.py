"""Fixtures of every layer, and what must be set before any of them imports MLX."""

import os

import pytest

# As the server sets it: threads that wait by spinning starve each other on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
