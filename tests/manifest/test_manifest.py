"""The manifest of requirements, both ways: what it names exists, and what exists is named."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.server import REPOSITORY

FOLDER = Path(__file__).parent
# Folders whose every test stands in a manifest: they hold the surface's own tests.
SURFACE = ("tests/http", "tests/golden")
# What a row without tests may wait for: work that is to come, or a machine that can run it.
LATER = {"later", "constraints", "speed", "background", "machine"}

Row = dict[str, Any]


def list_rows() -> Iterator[tuple[str, Row]]:
    """Each row with the place where it stands."""
    for path in sorted(FOLDER.glob("*.yaml")):
        for section, rows in yaml.safe_load(path.read_text()).items():
            for row in rows:
                yield f"{path.stem}: {section}: {row['says']}", row


@cache
def list_tests(file: str) -> frozenset[str]:
    """The names of the tests in a file."""
    tree = ast.parse((REPOSITORY / file).read_text())
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return frozenset(
        node.name for node in tree.body if isinstance(node, kinds) and node.name.startswith("test_")
    )


ROWS = dict(list_rows())
NAMED = {test for row in ROWS.values() for test in row.get("tests", ())}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_a_requirement_has_its_tests_or_says_what_it_waits_for(row: Row) -> None:
    tests = row.get("tests", [])
    assert bool(tests) != (row.get("waits") in LATER)
    for test in tests:
        file, _, name = test.partition("::")
        assert not name or name in list_tests(file), test
        assert (REPOSITORY / file).is_file(), test


@pytest.mark.parametrize("folder", SURFACE)
def test_every_test_of_the_surface_proves_a_requirement(folder: str) -> None:
    files = [str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / folder).rglob("test_*.py")]
    assert files
    unnamed = [
        f"{file}::{name}"
        for file in files
        for name in sorted(list_tests(file))
        if f"{file}::{name}" not in NAMED
    ]
    assert unnamed == []


def test_no_requirement_stands_twice() -> None:
    assert len(ROWS) == sum(1 for _ in list_rows())
