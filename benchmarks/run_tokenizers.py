"""Seconds that a package's tokenizers need for the same real conversations and texts: one process, on one thread.

    python run_tokenizers.py torchpipe|torchtune INPUTS_JSON [--only NAME ...]

It runs in either package's environment, with the same lines for both: classes and arguments have the same names. Every
tokenizer is fresh and takes one pass. Imports and reading its files are not timed.
"""

import argparse
import importlib
import json
import sys
import time
import types
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = {"name": "llama3", "pattern": LLAMA3_SPLIT, "bos_id": 128000, "eos_id": 128001, "special_tokens": {}}
QWEN, BASE = ("qwen_vocab", "qwen_merges"), "modules.transforms.tokenizers"


class Tokenizer(NamedTuple):
    """A class, the files it reads (names in the inputs), its further arguments, and those of each call."""

    module: str
    files: tuple[str, ...]
    arguments: dict[str, Any] = {}  # noqa: RUF012  # never changed
    call: dict[str, Any] = {}  # noqa: RUF012


# Llama 2, Gemma and Phi-3 publish no file that is at hand; Mistral's is of the same kind.
CHATS = {
    "Llama2Tokenizer": Tokenizer("models.llama2", ("mistral_v1",)),
    "Llama3Tokenizer": Tokenizer("models.llama3", ("llama3",)),
    "Qwen2Tokenizer": Tokenizer("models.qwen2", QWEN),
    "Qwen2_5Tokenizer": Tokenizer("models.qwen2_5", QWEN),
    "MistralTokenizer": Tokenizer("models.mistral", ("mistral_v1",)),
    "GemmaTokenizer": Tokenizer("models.gemma", ("mistral_v1",)),
    "Phi3MiniTokenizer": Tokenizer("models.phi3", ("mistral_v1",)),
    "Phi4Tokenizer": Tokenizer("models.phi4", ("cl100k_merges", "cl100k_vocab"), call={"add_eos": True}),
}
TEXTS = {
    "TikTokenBaseTokenizer": Tokenizer(BASE, ("llama3",), LLAMA3),
    "SentencePieceBaseTokenizer": Tokenizer(BASE, ("mistral_v1",)),
    "GPT2BaseTokenizer": Tokenizer(BASE, ("gpt2_vocab", "gpt2_merges"), {"bos_id": 50256, "eos_id": 50257}),
    "HuggingFaceBaseTokenizer": Tokenizer(BASE, ("deepseek",), {"tokenizer_config_json_path": "deepseek_config"}),
    "T5Tokenizer": Tokenizer("models.t5", ("t5",), {"max_seq_len": 100_000}),
    "CLIPTokenizer": Tokenizer("models.clip", ("clip",), {"max_seq_len": 100_000}),
}


def built(package: str, name: str, spec: Tokenizer, files: dict[str, str]) -> Any:
    """The tokenizer, by ``package``."""
    if package == "torchtune" and spec.module == "models.clip":
        # torchtune's package of CLIP without its images, which need torchvision.
        stand_in: Any = types.ModuleType("torchtune.models.clip")
        stand_in.__path__ = [str(Path(importlib.import_module("torchtune.models").__path__[0], "clip"))]
        sys.modules[stand_in.__name__] = stand_in
    module = importlib.import_module(f"{package}.{spec.module}")
    if not hasattr(module, name):  # torchtune keeps some of its classes in the file
        module = importlib.import_module(f"{module.__name__}._tokenizer")
    arguments = {key: files[value] if key.endswith("_path") else value for key, value in spec.arguments.items()}
    return getattr(module, name)(*(files[part] for part in spec.files), **arguments)


def measure(call: Callable[..., Sequence[int]], inputs: Sequence[Any], arguments: dict[str, Any]) -> dict[str, float]:
    """CPU seconds of one pass, with the inputs and the tokens that it gave."""
    num_tokens = 0
    start = time.process_time()
    for given in inputs:
        num_tokens += len(call(given, **arguments))
    return {"seconds": time.process_time() - start, "inputs": len(inputs), "tokens": num_tokens}


def main() -> None:
    """Prints one JSON object: tokenizer to result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("package", choices=("torchpipe", "torchtune"))
    parser.add_argument("inputs", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="all, where none is named")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    inputs = json.loads(options.inputs.read_text(encoding="utf-8"))
    message = importlib.import_module(f"{options.package}.data").Message
    chats = [[message(**turn) for turn in chat] for chat in inputs["chats"]]
    results = {}
    for name in options.only or [*CHATS, *TEXTS]:
        spec = CHATS[name] if name in CHATS else TEXTS[name]
        tokenizer = built(options.package, name, spec, inputs["files"])
        if name in CHATS:
            results[name] = measure(
                lambda chat, t=tokenizer, **given: t.tokenize_messages(chat, **given)[0], chats, spec.call
            )
        else:
            results[name] = measure(tokenizer.encode, inputs["texts"], spec.call)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
