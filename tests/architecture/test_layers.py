"""Imports go down only. The table is the design; the walk reads every import, inside functions too."""

import ast
from functools import cache
from pathlib import Path

import pytest

import torchpipe

# L0: the files beside the packages, but for the command. A package may import itself, L0, and what its row names.
L0 = {file.stem for file in Path(torchpipe.__path__[0]).glob("*.py")} - {"__init__", "__main__"}
_DATA_SIDE = ("data", "config", "sources", "tokenizers", "vision", "store", "loading", "datasets")
ALLOWED: dict[str, set[str]] = {
    "data": set(),
    "config": set(),
    "sources": {"data", "config"},
    "tokenizers": {"data"},
    "vision": {"data"},
    "modules": {"data"},
    "rlhf": {"modules"},
    "store": {"data", "config", "sources"},
    "loading": {"data", "store"},
    "datasets": {"data", "config", "sources", "store"},
    "pipeline": {"data", "config", "sources", "vision", "store", "loading"},
    "models": {"data", "modules", "tokenizers", "vision"},
    "training": {"data", "config", "modules", "models"},  # a checkpoint writes weights, a logger a config
    "audit": {*_DATA_SIDE, "pipeline", "modules", "models", "training"},
    "cli": {*_DATA_SIDE, "pipeline", "modules", "models", "training", "audit"},
}
LIBRARY_ONLY_IN: dict[str, set[str]] = {
    "datasets": {"sources"},
    "tiktoken": {"tokenizers"},
    "tokenizers": {"tokenizers"},
    "sentencepiece": {"tokenizers"},
    "grain": {"pipeline"},
    "torchtune": set(),
    "torchtitan": set(),
    "trl": set(),
    "transformers": set(),
    "peft": set(),
}

# Files at the paths where torchtune has a name, which is defined elsewhere. They hold nothing else, and may point
# anywhere (see test_reexports.py). The files are relative to the package.
REEXPORTS = {
    "models/clip/inference/_transform.py",
    "modules/common_utils.py",
    "modules/tokenizers.py",
    "modules/transforms/tokenizers.py",
    "modules/transforms/__init__.py",
    "modules/transforms/vision_utils/get_canvas_best_fit.py",
    "modules/transforms/vision_utils/get_inscribed_size.py",
    "modules/transforms/vision_utils/pad_dim_to_size.py",
    "modules/transforms/vision_utils/resize_with_pad.py",
    "modules/transforms/vision_utils/tile_crop.py",
}


@cache
def imports_of(file: Path) -> list[tuple[int, str]]:
    """Line and dotted name of every import in a file."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: relative import"
            module = node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "torchpipe" else [module]
            found += [(node.lineno, name) for name in names]
    return found


def files_of(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"))


def test_every_package_stands_in_the_table(repository: Path) -> None:
    packages = {init.parent.name for init in (repository / "torchpipe").glob("*/__init__.py")}
    assert packages == set(ALLOWED)


def test_the_lowest_layer_is_private_but_for_two_files() -> None:
    assert {name for name in L0 if not name.startswith("_")} == {"constants", "errors"}


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_a_package_imports_only_the_layers_its_row_names(repository: Path, package: str) -> None:
    allowed = ALLOWED[package] | L0 | {package, "__version__"}
    wrong = [
        f"{file.relative_to(repository)}:{line} imports {name}"
        for file in files_of(repository / "torchpipe" / package)
        if file.relative_to(repository / "torchpipe").as_posix() not in REEXPORTS
        for line, name in imports_of(file)
        if name.split(".")[0] == "torchpipe" and [*name.split("."), ""][1] not in allowed
    ]
    assert wrong == []


def test_the_lowest_layer_imports_nothing_above_it(repository: Path) -> None:
    wrong = [
        f"{file.name}:{line} imports {name}"
        for file in (repository / "torchpipe").glob("*.py")
        if file.stem in L0 | {"__init__"}
        for line, name in imports_of(file)
        if name.split(".")[0] == "torchpipe" and [*name.split("."), ""][1] not in L0 | {"__version__", "_shipped"}
    ]
    assert wrong == []


@pytest.mark.parametrize("library", sorted(LIBRARY_ONLY_IN))
def test_a_library_is_imported_only_where_its_row_says(repository: Path, library: str) -> None:
    wrong = [
        f"{file.relative_to(repository)}:{line}"
        for file in [*files_of(repository / "torchpipe"), *files_of(repository / "recipes")]
        for line, name in imports_of(file)
        if name.split(".")[0] == library and not LIBRARY_ONLY_IN[library] & set(file.relative_to(repository).parts)
    ]
    assert wrong == []


def test_tests_and_recipes_are_no_packages(repository: Path) -> None:
    found = [*(repository / "tests").rglob("__init__.py"), *(repository / "recipes").rglob("__init__.py")]
    assert found == []
