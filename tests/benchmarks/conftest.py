"""The scripts of benchmarks/, run on small inputs."""

import io
import json
import runpy
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest


def _printed_here(words: list[str]) -> str:
    with (
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(),
        redirect_stdout(io.StringIO()) as out,
    ):
        patch.setattr(sys, "argv", words)
        patch.syspath_prepend(Path(words[0]).parent)
        runpy.run_path(words[0], run_name="__main__")
    return out.getvalue()


def _printed_alone(words: list[str]) -> str:
    result = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="session")
def run_script(repository: Path) -> Callable[..., Any]:
    """Function (script, *arguments, alone=) -> the JSON that the script prints last.

    It is run in the process of the tests, which has what most scripts import; with ``alone``, for a script that
    measures a process or its imports, in one of its own.
    """

    def run(script: str, *arguments: str | Path, alone: bool = False) -> Any:
        words = [str(repository / "benchmarks" / script), *map(str, arguments)]
        printed = _printed_alone(words) if alone else _printed_here(words)
        return json.loads(printed.splitlines()[-1])

    return run
