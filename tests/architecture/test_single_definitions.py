"""Padding, shuffling, packing and mixing each live in one place; a second copy is where bugs start."""

import ast
from functools import cache
from pathlib import Path

import pytest

# What to look for in the source text, and the only files that may hold it.
HOMES: dict[str, tuple[set[str], set[str]]] = {
    "shuffling": (
        {"randperm", "RandomSampler", "shuffle", "permutation"},
        {"torchpipe/_seeds.py"},
    ),
    # What else draws a source by weights: Python's and numpy's draws, torch's sampler, the mixers of other libraries.
    "mixing": (
        {"choices", "choice", "WeightedRandomSampler", "interleave_datasets", "mix"},
        {"torchpipe/data/mixing.py"},
    ),
    "padding": ({"pad_sequence", "left_pad_sequence"}, {"torchpipe/data/padding.py", "torchpipe/data/collate/text.py"}),
    "label shift": ({"roll"}, set()),
}


@cache
def nodes_of(file: Path) -> list[ast.AST]:
    """All of a file's syntax tree."""
    return list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("kind", sorted(HOMES))
def test_a_kind_of_work_is_done_in_its_home_only(repository: Path, kind: str) -> None:
    names, homes = HOMES[kind]
    wrong = []
    for file in sorted((repository / "torchpipe").rglob("*.py")):
        where = file.relative_to(repository).as_posix()
        if where in homes:
            continue
        for node in nodes_of(file):
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            name = (
                called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
            )
            if name in names:
                wrong.append(f"{where}:{node.lineno} calls {name}")
    assert wrong == []


def test_the_ignore_index_is_written_once(repository: Path) -> None:
    """-100 as a default of torchtune's signatures is allowed; as a value in code it is not."""
    wrong = []
    for file in sorted((repository / "torchpipe").rglob("*.py")):
        for node in nodes_of(file):
            if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant) and node.operand.value == 100:
                wrong.append(f"{file.relative_to(repository).as_posix()}:{node.lineno}")
    assert [place for place in wrong if not place.startswith("torchpipe/constants.py")] == []


def test_no_file_is_longer_than_the_house_style_allows(repository: Path) -> None:
    files = [file for folder in ("torchpipe", "recipes", "benchmarks") for file in (repository / folder).rglob("*.py")]
    long = {file.name: n for file in files if (n := len(file.read_text(encoding="utf-8").splitlines())) > 350}
    assert long == {}


def test_only_one_file_makes_a_schedule_of_sources(repository: Path) -> None:
    """Others ask ``mix_schedule`` for one: a table of places is made where it is defined, and nowhere else."""
    makers = {
        file.relative_to(repository).as_posix()
        for file in sorted((repository / "torchpipe").rglob("*.py"))
        for node in nodes_of(file)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "MixSchedule"
    }
    assert makers == {"torchpipe/data/mixing.py"}
