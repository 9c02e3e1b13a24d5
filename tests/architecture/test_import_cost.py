"""What an import loads, seen in a fresh process."""

import subprocess
import sys

import pytest

HEAVY = (
    "grain",
    "datasets",
    "PIL",
    "sentencepiece",
    "tiktoken",
    "tokenizers",
    "transformers",
    "ray",
    "rich",
    "pyarrow",
    "jinja2",
    "markupsafe",
)


@pytest.mark.parametrize(
    "module",
    [
        "torchpipe",
        "torchpipe.data",
        "torchpipe.config",
        "torchpipe.store",
        "torchpipe.tokenizers",
        "torchpipe.tokenizers.jinja",
        "torchpipe.loading",
        "torchpipe.datasets",
        "torchpipe.models",
        "torchpipe.vision",
        "torchpipe.modules.transforms",
    ],
)
def test_importing_loads_no_heavy_library(module: str) -> None:
    code = f"import sys, {module}; print([m for m in {HEAVY!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_importing_the_package_alone_does_not_load_torch() -> None:
    code = "import sys, torchpipe; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
