"""docs/differences_from_torchtitan.md: every limit has its row, and the tests that it names are there."""

import ast
import re
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "differences_from_torchtitan.md").read_text(encoding="utf-8")


def names_in(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        within = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found |= {prefix + one.name for one in within if isinstance(one, ast.FunctionDef)}
    return found


def test_each_of_the_25_limits_has_a_row(page: str) -> None:
    assert [int(number) for number in re.findall(r"^\| (\d+)\. ", page, flags=re.MULTILINE)] == list(range(1, 26))


def test_every_test_that_is_named_is_there(page: str, repository: Path) -> None:
    named = re.findall(r"`([\w/]+\.py)::([\w:]+)`", page)
    assert len(named) > 30
    for file, test in named:
        folder, _, name = file.rpartition("/")
        (path,) = (repository / (folder or "tests/pipeline")).rglob(name)
        assert test in names_in(path), f"{file}::{test}"


def test_every_limit_that_is_lifted_names_a_test(page: str) -> None:
    rows = re.findall(r"^\| \d+\. .* \| (\w+).* \| (.*) ?\|$", page, flags=re.MULTILINE)
    assert len(rows) == 25
    assert {word for word, tests in rows if not tests.strip()} <= {"Not"}
