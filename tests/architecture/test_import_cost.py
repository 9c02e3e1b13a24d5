"""What an import loads, seen in a fresh process."""

import json
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


MODULES = (
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
)
IMPORT_EACH = f"""
import importlib, json, sys
seen, loaded = set(), {{}}
for module in {MODULES!r}:
    importlib.import_module(module)
    loaded[module] = [name for name in {HEAVY!r} if name in sys.modules and name not in seen]
    seen.update(loaded[module])
print(json.dumps(loaded))
"""


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str]]:
    """The heavy libraries that the import of each module loads, beside those that an earlier one of MODULES loaded."""
    result = subprocess.run([sys.executable, "-c", IMPORT_EACH], capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


@pytest.mark.parametrize("module", MODULES)
def test_importing_loads_no_heavy_library(module: str, loaded: dict[str, list[str]]) -> None:
    assert loaded[module] == []


def test_importing_the_package_alone_does_not_load_torch() -> None:
    code = "import sys, torchpipe; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
