"""A working folder that a test may fill with modules of its own."""

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], Path]]:
    """Writes a file below the working folder, which is a new one; its modules are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    yield write_file
    for name in set(sys.modules) - before:
        module = sys.modules[name]
        if str(tmp_path) in f"{getattr(module, '__file__', '')} {getattr(module, '__path__', '')}":
            del sys.modules[name]
