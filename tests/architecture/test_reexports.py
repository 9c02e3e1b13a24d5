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


def sources_of(file: str) -> dict[str, str]:
    """Name to module: the imports, or those that type checkers read where the names are looked up later.

    A file that takes all names of another re-export has that one's.
    """
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    for node in imports:
        if [alias.name for alias in node.names] == ["*"]:
            return sources_of(str(node.module).removeprefix("torchpipe.").replace(".", "/") + ".py")
    modules = {alias.name: str(node.module) for node in imports for alias in node.names}
    return {name: module for name, module in modules.items() if name not in ("TYPE_CHECKING", "lazily")}


@pytest.mark.parametrize("file", FILES)
def test_a_name_at_torchtunes_path_is_the_one_definition(file: str) -> None:
    old = importlib.import_module(module_name(file))
    sources = sources_of(file)
    assert sorted(sources) == sorted(old.__all__)
    for name, module in sources.items():
        assert getattr(old, name) is getattr(importlib.import_module(module), name)
        assert getattr(old, name).__module__ == module


@pytest.mark.parametrize("file", FILES)
def test_a_reexport_holds_nothing_else(file: str) -> None:
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    assert {type(node) for node in tree.body} <= {ast.Expr, ast.ImportFrom, ast.If, ast.Assign, ast.AugAssign}
    for node in tree.body:
        if isinstance(node, ast.If):
            assert ast.unparse(node.test) == "TYPE_CHECKING"
            assert all(isinstance(inner, ast.ImportFrom) for inner in node.body)
            assert [ast.unparse(inner).split(" = ")[0] for inner in node.orelse] == ["__getattr__"]
        elif isinstance(node, ast.Assign | ast.AugAssign):
            target = node.target if isinstance(node, ast.AugAssign) else node.targets[0]
            assert ast.unparse(target) == "__all__"


def test_an_unknown_name_is_an_attribute_error() -> None:
    old = importlib.import_module("torchpipe.modules.transforms")
    with pytest.raises(AttributeError, match=r"module 'torchpipe\.modules\.transforms' has no attribute 'Nothing'"):
        _ = old.Nothing
