"""Writes ``torchtune_goldens.json``: digests of what torchtune makes of real rows, for torchpipe to be compared with.

Run by hand, with the Python of an environment that holds the packages of ``benchmarks/peers.txt``:

    python tests/parity/make_torchtune_goldens.py DATA_FOLDER TOKENIZER_MODEL [--out torchtune_goldens.json]

The file holds the cases with their arguments and digests alone, none of the data. torchtune 0.6.1 leaves labels where
the tokens are and its recipe moves them by one before the loss; here they are moved before they are digested (and
before they are packed, as torchtune's main branch does).
"""

import argparse
import hashlib
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROWS_PER_DIGEST = 100

GSM8K = {
    "builder": "instruct_dataset",
    "data_file": "gsm8k/train.jsonl",
    "arguments": {"column_map": {"input": "question", "output": "answer"}},
}
FASTCHAT = {
    "builder": "chat_dataset",
    "data_file": "sharegpt/fastchat_dummy_conversation.json",
    "arguments": {"conversation_column": "conversations", "conversation_style": "sharegpt"},
}
IDENTITY = {"builder": "alpaca_dataset", "data_file": "llamafactory/identity.json", "arguments": {}}
SELF_INSTRUCT = IDENTITY | {"data_file": "alpaca/self_instruct_user_oriented_alpaca.json"}
TINKER = {
    "builder": "chat_dataset",
    "data_file": "messages/tinker_conversations.jsonl",
    "arguments": {"conversation_column": "messages", "conversation_style": "openai"},
}
WIKISQL = {"builder": "text_completion_dataset", "data_file": "text/mlx_wikisql_text.jsonl", "arguments": {}}
C4 = WIKISQL | {"data_file": "llamafactory/c4_demo.jsonl"}
TOY = TINKER | {"data_file": "messages/toy_chat_fine_tuning.jsonl"}


def case(base: Mapping[str, Any], *, max_seq_len: int | None = None, packing: Any = None, **arguments: Any) -> Any:
    """A case: ``base`` with more arguments of the builder, a tokenizer's length, or arguments of ``PackedDataset``."""
    return dict(base, arguments={**base["arguments"], **arguments}, max_seq_len=max_seq_len, packing=packing)


# Builders, PackedDataset and their arguments have the same names on both sides.
CASES: dict[str, dict[str, Any]] = {
    "gsm8k": case(GSM8K, train_on_input=False),
    "gsm8k, trained on the question too": case(GSM8K, train_on_input=True),
    "gsm8k, cut to 128 tokens": case(GSM8K, max_seq_len=128, train_on_input=False),
    "gsm8k, a system prompt added": case(
        GSM8K, train_on_input=False, new_system_prompt="Reason step by step.", split="train[:500]"
    ),
    "fastchat": case(FASTCHAT, train_on_input=False),
    "fastchat, trained on all, system prompt added": case(
        FASTCHAT, train_on_input=True, new_system_prompt="You are a helpful assistant."
    ),
    "identity": case(IDENTITY, train_on_input=True),
    "identity, trained on the output alone": case(IDENTITY, train_on_input=False),
    "self-instruct": case(SELF_INSTRUCT, train_on_input=True),
    "self-instruct, trained on the output alone": case(SELF_INSTRUCT, train_on_input=False),
    "tinker": case(TINKER, train_on_input=False),
    "tinker, trained on all": case(TINKER, train_on_input=True),
    "tinker, system prompt replaced": case(TINKER, train_on_input=False, new_system_prompt="Answer in one sentence."),
    "toy chats": case(TOY, train_on_input=False),
    "toy chats, cut to 64 tokens": case(TOY, max_seq_len=64, train_on_input=False),
    "gsm8k packed": case(
        GSM8K, train_on_input=False, split="train[:400]",
        packing={"max_seq_len": 1024, "padding_idx": 0, "split_across_pack": False},
    ),
    "gsm8k packed, samples split": case(
        GSM8K, train_on_input=False, split="train[:400]",
        packing={"max_seq_len": 1024, "padding_idx": 0, "split_across_pack": True},
    ),
    "tinker packed, 3 packs at most": case(
        TINKER, train_on_input=False,
        packing={"max_seq_len": 512, "padding_idx": 0, "split_across_pack": False, "max_packs": 3},
    ),
    "wikisql": case(WIKISQL),
    "wikisql, without EOS": case(WIKISQL, add_eos=False),
    "c4, cut to 129 tokens": case(C4, max_seq_len=129),
    "c4 packed, documents split": case(
        C4, packing={"max_seq_len": 1024, "padding_idx": 0, "split_across_pack": True}
    ),
    "wikisql packed": case(
        WIKISQL, add_eos=False, packing={"max_seq_len": 512, "padding_idx": 0, "split_across_pack": False}
    ),
}  # fmt: skip


def rows_and_refusals(dataset: Any, refusal: type[Exception]) -> tuple[list[dict[str, list[int]]], list[int]]:
    """Every sample as plain lists of integers, and the numbers of the rows that are refused."""
    rows: list[dict[str, list[int]]] = []
    refused: list[int] = []
    for index in range(len(dataset)):
        try:
            sample = dataset[index]
        except refusal:
            refused.append(index)
            continue
        columns = [key for key in ("tokens", "mask", "labels", "input_pos", "seq_lens") if key in sample]
        rows.append({key: [int(value) for value in sample[key]] for key in columns})
    return rows, refused


def digests(rows: list[dict[str, list[int]]]) -> dict[str, list[str]]:
    """Of every column, the start of a SHA-256 for each ``ROWS_PER_DIGEST`` rows: a line of JSON a row."""
    return {key: list(_digests(row[key] for row in rows)) for key in rows[0]}


def _digests(values: Iterable[list[int]]) -> Iterator[str]:
    lines = [json.dumps(row) + "\n" for row in values]
    for start in range(0, len(lines), ROWS_PER_DIGEST):
        yield hashlib.sha256("".join(lines[start : start + ROWS_PER_DIGEST]).encode()).hexdigest()[:16]


class MovedLabels:
    """A torchtune 0.6.1 data set with its labels moved to the token before the one they were at."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index >= len(self):
            raise IndexError(index)
        sample = self._dataset[index]
        return {**sample, "labels": [*map(int, sample["labels"][1:]), -100]}


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_folder", type=Path)
    parser.add_argument("tokenizer_model", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("torchtune_goldens.json"))
    arguments = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    warnings.simplefilter("ignore")

    import importlib.metadata

    import torchtune.datasets  # pyright: ignore[reportMissingImports]
    from torchtune.models.llama3 import llama3_tokenizer  # pyright: ignore[reportMissingImports]

    golden = {}
    for name, spec in CASES.items():
        tokenizer = llama3_tokenizer(str(arguments.tokenizer_model), max_seq_len=spec["max_seq_len"])
        data_files = str(arguments.data_folder / spec["data_file"])
        build = getattr(torchtune.datasets, spec["builder"])
        dataset: Any = MovedLabels(build(tokenizer, source="json", data_files=data_files, **spec["arguments"]))
        if spec["packing"]:
            dataset = torchtune.datasets.PackedDataset(dataset, **spec["packing"])
        rows, refused = rows_and_refusals(dataset, ValueError)
        num_tokens = sum(len(row["tokens"]) for row in rows)
        golden[name] = {**spec, "num_rows": len(rows), "num_tokens": num_tokens, "refused": refused} | {
            "digests": digests(rows)
        }
        print(f"{name}: {len(rows)} rows, {num_tokens} tokens, refused: {refused}", flush=True)
    packages = ("torchtune", "torchao", "tiktoken", "datasets", "torch")
    made_with = {package: importlib.metadata.version(package) for package in packages}
    text = json.dumps({"made_with": made_with, "rows_per_digest": ROWS_PER_DIGEST, "cases": golden}, indent=1)
    arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
