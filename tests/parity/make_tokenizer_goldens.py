"""Writes ``tokenizer_goldens.json``: digests of what torchtune's tokenizers of plain text make of real texts.

Run by hand, with the Python of an environment that holds the packages of ``benchmarks/peers.txt``:

    python tests/parity/make_tokenizer_goldens.py DATA_FOLDER LLAMA3_RANKS DEEPSEEK_JSON CLIP_MERGES_GZ

The same functions run with torchpipe in the test: classes and arguments have the same names. The file holds the cases
with their counts and digests alone, none of the texts.
"""

import argparse
import gzip
import hashlib
import importlib.metadata
import json
import runpy
import sys
import tempfile
import types
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TEXTS_PER_DIGEST = 100

GPT2_PATTERN = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# What torchtune's GPT2BaseTokenizer splits with, instead of GPT-2's own expression.
TORCHTUNE_GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?[\w]+| ?\d+| ?[^\s\w\d]+|\s+(?!\S)|\s+"

# Name of a case: class, files (see files_of), further arguments; then the arguments of encode.
CASES: dict[str, dict[str, Any]] = {
    f"{name}, {how}": {"class": cls, "files": files, "arguments": arguments, "encode": encode}
    for name, cls, files, arguments, encodes in (
        (
            "tiktoken gpt2", "TikTokenBaseTokenizer", ["gpt2"],
            {"name": "gpt2", "pattern": GPT2_PATTERN, "bos_id": 50256, "eos_id": 50257,
             "special_tokens": {"<|endoftext|>": 50256, "<|end|>": 50257}},
            {"bos and eos": {}, "text alone": {"add_bos": False, "add_eos": False}},
        ),
        (
            "tiktoken small", "TikTokenBaseTokenizer", ["small_ranks"],
            {"name": "small", "pattern": LLAMA3_PATTERN, "bos_id": 2000, "eos_id": 2001,
             "special_tokens": {"<s>": 2000, "</s>": 2001}},
            {"bos and eos": {}},
        ),
        (
            "tiktoken llama3", "TikTokenBaseTokenizer", ["llama3"],
            {"name": "llama3", "pattern": LLAMA3_PATTERN, "bos_id": 128000, "eos_id": 128001,
             "special_tokens": {"<|begin_of_text|>": 128000, "<|end_of_text|>": 128001}},
            {"bos and eos": {}},
        ),
        *(
            (
                f"sentencepiece {file}", "SentencePieceBaseTokenizer", [file], {},
                {"bos and eos": {}, "text alone": {"add_bos": False, "add_eos": False},
                 "trimmed": {"add_bos": False, "add_eos": False, "trim_leading_whitespace": True}},
            )
            for file in ("m.model", "mistral_v1", "mistral_v3")
        ),
        # Not trimmed: torchtune loses a first character that this model doesn't know.
        ("sentencepiece botchan", "SentencePieceBaseTokenizer", ["botchan"], {}, {"bos and eos": {}}),
        (
            "sentencepiece t5", "SentencePieceBaseTokenizer", ["t5"], {},
            {"eos": {"add_bos": False}, "trimmed": {"add_bos": False, "trim_leading_whitespace": True}},
        ),
        (
            "gpt2", "GPT2BaseTokenizer", ["gpt2_vocab", "gpt2_merges"], {"bos_id": 50256, "eos_id": 50257},
            {"bos and eos": {}},
        ),
        (
            "hugging face deepseek", "HuggingFaceBaseTokenizer", ["deepseek"],
            {"tokenizer_config_json_path": "deepseek_config"},
            {"bos and eos": {}},
        ),
        (
            "hugging face small", "HuggingFaceBaseTokenizer", ["small_json"],
            {"generation_config_path": "small_config"},
            {"bos and eos": {}},
        ),
        ("t5 text", "models.t5.t5_tokenizer", ["t5"], {}, {"cut to 512": {}}),
        ("t5 text", "models.t5.t5_tokenizer", ["t5"], {"max_seq_len": 20}, {"cut to 20": {}}),
        ("clip text", "models.clip.CLIPTokenizer", ["clip"], {}, {"cut to 77": {}}),
        ("clip text", "models.clip.CLIPTokenizer", ["clip"], {"max_seq_len": 10_000}, {"whole": {}}),
    )
    for how, encode in encodes.items()
}  # fmt: skip

# Of conversations: the model file, and the most tokens a conversation may have.
CHATS: dict[str, dict[str, Any]] = {
    f"chats, {file}, {limit or 'no'} limit": {"file": file, "max_seq_len": limit}
    for file in ("m.model", "mistral_v1", "mistral_v3")
    for limit in (None, 50)
}


def files_of(data: Path, oracles: Mapping[str, Path], scratch: Path) -> dict[str, Path]:
    """The files that cases name; what has to be derived is written to ``scratch``."""
    here = Path(__file__).resolve().parent
    derive = runpy.run_path(str(here / "byte_level_files.py"))["write_byte_level_files"]
    folder = data / "tokenizers"
    vocab, merges = derive(folder / "gpt2" / "gpt2.tiktoken", scratch)
    (scratch / "deepseek_config.json").write_text(
        json.dumps({"bos_token": {"content": "<｜begin▁of▁sentence｜>"}, "eos_token": "<｜end▁of▁sentence｜>"})
    )
    (scratch / "small_config.json").write_text(json.dumps({"bos_token_id": 0, "eos_token_id": 1}))
    files = {
        "gpt2": folder / "gpt2" / "gpt2.tiktoken",
        "small_ranks": folder / "torchtune" / "tiktoken_small.model",
        "m.model": folder / "torchtune" / "m.model",
        "t5": folder / "torchtune" / "sentencepiece.model",
        "small_json": folder / "torchtune" / "tokenizer.json",
        "mistral_v1": folder / "mistral" / "tokenizer.model.v1",
        "mistral_v3": folder / "mistral" / "mistral_instruct_tokenizer_240323.model.v3",
        "botchan": folder / "sentencepiece" / "test_model.model",
        "gpt2_vocab": vocab,
        "gpt2_merges": merges,
        "deepseek_config": scratch / "deepseek_config.json",
        "small_config": scratch / "small_config.json",
    }
    files |= {name: path for name, path in oracles.items() if name != "clip_gz"}
    if "clip_gz" in oracles:
        # OpenAI's file holds more merges than CLIP has; the published merges.txt stops where CLIP does.
        lines = gzip.decompress(oracles["clip_gz"].read_bytes()).decode("utf-8").split("\n")
        files["clip"] = scratch / "clip_merges.txt"
        files["clip"].write_text("\n".join(["#version: 0.2", *lines[1 : 49152 - 256 - 2 + 1]]) + "\n", encoding="utf-8")
    return files


def texts_of(data: Path) -> list[str]:
    """Real texts in several languages, code and odd cases, none empty."""
    with (data / "gsm8k" / "train.jsonl").open(encoding="utf-8") as file:
        rows = [json.loads(line) for _, line in zip(range(300), file, strict=False)]
    texts = [row[column] for row in rows for column in ("question", "answer")]
    with (data / "code" / "HumanEval_100.jsonl").open(encoding="utf-8") as file:
        texts += [json.loads(line)["prompt"] for line in file]
    for name in ("glaive_toolcall_zh_demo.json", "glaive_toolcall_en_demo.json"):
        chats = json.loads((data / "llamafactory" / name).read_text(encoding="utf-8"))[:60]
        texts += [turn["value"] for chat in chats for turn in chat["conversations"]]
    odd = (data / "golden" / "llama_cpp_vocab" / "ggml-vocab-gpt-2.gguf.inp").read_bytes().decode("utf-8")
    texts += odd.split("\n__ggml_vocab_test__\n")
    return [text for text in texts if text]


def chats_of(data: Path) -> list[list[tuple[str, str, bool]]]:
    """Conversations as (role, text, masked), each ending with the assistant."""
    with (data / "messages" / "tinker_conversations.jsonl").open(encoding="utf-8") as file:
        chats = [json.loads(line)["messages"] for line in file]
    return [[(turn["role"], turn["content"], turn["role"] != "assistant") for turn in chat] for chat in chats]


def build(package: str, case: Mapping[str, Any], files: Mapping[str, Path]) -> Any:
    """The tokenizer of a case, by ``package``."""
    name = case["class"] if "." in case["class"] else f"modules.transforms.tokenizers.{case['class']}"
    module, _, attribute = f"{package}.{name}".rpartition(".")
    arguments = {key: str(files[value]) if key.endswith("_path") else value for key, value in case["arguments"].items()}
    return getattr(importlib.import_module(module), attribute)(
        *(str(files[file]) for file in case["files"]), **arguments
    )


def encoded(tokenizer: Any, case: Mapping[str, Any], texts: Sequence[str]) -> list[list[int]]:
    """Ids of every text."""
    return [[int(token_id) for token_id in tokenizer.encode(text, **case["encode"])] for text in texts]


def rendered(package: str, case: Mapping[str, Any], files: Mapping[str, Path], chats: Sequence[Any]) -> list[list[int]]:
    """Ids and mask of every conversation, with BOS and EOS, one after the other."""
    module = importlib.import_module(f"{package}.modules.transforms.tokenizers")
    message = importlib.import_module(f"{package}.data").Message
    tokenizer = module.SentencePieceBaseTokenizer(str(files[case["file"]]))
    tokenizer.max_seq_len = case["max_seq_len"]
    rows = []
    for chat in chats:
        messages = [message(role=role, content=text, masked=masked) for role, text, masked in chat]
        tokens, mask = module.tokenize_messages_no_special_tokens(
            tokenizer, messages, bos_id=tokenizer.bos_id, eos_id=tokenizer.eos_id
        )
        rows.append([*map(int, tokens), *map(int, mask)])
    return rows


def digests(rows: Sequence[Any]) -> list[str]:
    """The start of a SHA-256 for each ``TEXTS_PER_DIGEST`` rows: a line of JSON a row."""
    lines = [json.dumps(row) + "\n" for row in rows]
    return [
        hashlib.sha256("".join(lines[start : start + TEXTS_PER_DIGEST]).encode()).hexdigest()[:16]
        for start in range(0, len(lines), TEXTS_PER_DIGEST)
    ]


def stand_in_for_clip() -> None:
    """torchtune's package of CLIP without its images, which need torchvision."""
    package: Any = types.ModuleType("torchtune.models.clip")
    folder = importlib.import_module("torchtune.models").__path__[0]
    package.__path__ = [str(Path(folder, "clip"))]
    sys.modules[package.__name__] = package
    package.CLIPTokenizer = importlib.import_module("torchtune.models.clip._tokenizer").CLIPTokenizer


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data_folder", "llama3", "deepseek", "clip_gz"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("tokenizer_goldens.json"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    stand_in_for_clip()
    texts, chats = texts_of(arguments.data_folder), chats_of(arguments.data_folder)
    oracles = {name: getattr(arguments, name) for name in ("llama3", "deepseek", "clip_gz")}
    golden: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        files = files_of(arguments.data_folder, oracles, Path(scratch))
        for name, case in CASES.items():
            tokenizer = build("torchtune", case, files)
            ids = encoded(tokenizer, case, texts)
            golden[name] = {"num_tokens": sum(map(len, ids)), "ids": digests(ids)}
            if case["class"] != "GPT2BaseTokenizer":  # which gives a list of pieces
                golden[name]["texts"] = digests([tokenizer.decode(row) for row in ids])
            print(f"{name}: {golden[name]['num_tokens']} tokens", flush=True)
        for name, case in CHATS.items():
            rows = rendered("torchtune", case, files, chats)
            golden[name] = {"num_tokens": sum(map(len, rows)) // 2, "ids": digests(rows)}
            print(f"{name}: {golden[name]['num_tokens']} tokens", flush=True)
    packages = ("torchtune", "tiktoken", "tokenizers", "sentencepiece")
    made_with = {package: importlib.metadata.version(package) for package in packages}
    content = {"made_with": made_with, "num_texts": len(texts), "num_chats": len(chats), "cases": golden}
    arguments.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
