"""torchtune's paths lead to the one definition, and the files at them hold nothing else."""

import ast
import importlib
import runpy
from pathlib import Path

import pytest

import torchpipe

PACKAGE = Path(torchpipe.__path__[0])
FILES = sorted(runpy.run_path(str(Path(__file__).with_name("test_layers.py")))["REEXPORTS"])


def module_name(file: str) -> str:
    return "torchpipe." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def typed_sources(file: str) -> dict[str, str]:
    """Name to module, from the imports that type checkers read."""
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert len(imports) == len(block.body)
    return {alias.name: str(node.module) for node in imports for alias in node.names}


@pytest.mark.parametrize("file", FILES)
def test_a_name_at_torchtunes_path_is_the_one_definition(file: str) -> None:
    old = importlib.import_module(module_name(file))
    sources = typed_sources(file)
    assert sorted(sources) == sorted(old.__all__)
    for name, module in sources.items():
        assert getattr(old, name) is getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("file", FILES)
def test_a_reexport_holds_nothing_else(file: str) -> None:
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    kinds = [type(node).__name__ for node in tree.body]
    assert kinds == ["Expr", "ImportFrom", "ImportFrom", "If", "Assign"]
    last = tree.body[-1]
    assert isinstance(last, ast.Assign)
    assert ast.unparse(last.targets[0]) == "__all__"


def test_an_unknown_name_is_an_attribute_error() -> None:
    old = importlib.import_module("torchpipe.modules.transforms")
    with pytest.raises(AttributeError, match=r"module 'torchpipe\.modules\.transforms' has no attribute 'Nothing'"):
        _ = old.Nothing
