"""What the tests of building share."""

import hashlib
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("toy_build.py")


@pytest.fixture(scope="session")
def toy() -> SimpleNamespace:
    """The names of toy_build.py."""
    return SimpleNamespace(**runpy.run_path(str(SCRIPT)))


@pytest.fixture
def start_build(repository: Path) -> Callable[..., "subprocess.Popen[str]"]:
    """Function (cache_dir, **options) -> a process of its own that builds the store of a toy recipe."""

    def begin(cache_dir: Path, *, env: dict[str, str] | None = None, **options: Any) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, str(SCRIPT), str(cache_dir), json.dumps(options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(repository), **(env or {})},
        )

    return begin


@pytest.fixture
def bytes_of() -> Callable[[Path], dict[str, str]]:
    """Function (folder) -> the hash of every file in it, by its path."""

    def hashes(folder: Path) -> dict[str, str]:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    return hashes
