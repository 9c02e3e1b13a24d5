"""Grain is imported in one place, which leaves a program's logging alone."""

import sys
from collections.abc import Callable
from pathlib import Path

import grain


def test_importing_grain_leaves_the_programs_logging_alone(run_code: Callable[..., str]) -> None:
    code = (
        "import contextlib, io, logging, sys\n"
        "said = io.StringIO()\n"
        "with contextlib.redirect_stderr(said):\n"
        "    from torchpipe.pipeline import HuggingFaceStreamingSource\n"
        "assert 'grain' in sys.modules and 'jax' not in sys.modules\n"
        "print(said.getvalue(), logging.root.handlers, logging.getLogger('absl').filters)\n"
    )
    assert run_code(code) == " [] []\n"


def test_no_module_imports_grain_by_itself(repository: Path) -> None:
    files = [file for file in (repository / "torchpipe").rglob("*.py") if file.name != "grain_import.py"]
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    assert [file.name for file, text in texts.items() if "\nimport grain" in text or "\nfrom grain" in text] == []
    assert sys.modules["grain"] is grain
