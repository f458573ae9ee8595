"""`pytest tests/golden --update-golden` writes the transcripts anew."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the transcripts instead of comparing"
    )


@pytest.fixture
def is_updating(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden", default=False))
