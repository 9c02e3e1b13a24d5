"""Writes ``preference_goldens.json``: digests of the pairs that torchtune makes of real rows.

Run by hand, with the Python of an environment that holds the packages of ``benchmarks/peers.txt``:

    python tests/parity/make_preference_goldens.py DATA_FOLDER TOKENIZER_MODEL [--out preference_goldens.json]

The file holds the cases and digests alone, none of the data. torchtune 0.6.1 reads no column of a prompt, so the rows
of ``dpo_en_demo.json`` are given to its ``PreferenceDataset`` by a transform of the cases' own, with the prompt masked
as torchpipe masks it ("prompt masked") or as its own transforms would ("all answers trained").
"""

import argparse
import hashlib
import json
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

HH = {"builder": "hh_rlhf_helpful_dataset", "data_file": "torchtune/hh_rlhf_tiny.json", "arguments": {}}
DPO = {"builder": "PreferenceDataset", "data_file": "llamafactory/dpo_en_demo.json", "arguments": {}}

CASES: dict[str, dict[str, Any]] = {
    "hh": {**HH, "max_seq_len": None},
    "hh, a system prompt added": {**HH, "arguments": {"new_system_prompt": "Be brief."}, "max_seq_len": None},
    "hh, cut to 25 tokens": {**HH, "max_seq_len": 25},
    "dpo, prompt masked": {**DPO, "max_seq_len": None},
    "dpo, prompt masked, cut to 512 tokens": {**DPO, "max_seq_len": 512},
    "dpo, all answers trained": {**DPO, "max_seq_len": None},
}

COLUMNS = ("chosen_input_ids", "chosen_labels", "rejected_input_ids", "rejected_labels")


def digests(pairs: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Of every column, the start of a SHA-256 for each pair."""
    found: dict[str, list[str]] = {column: [] for column in COLUMNS}
    for pair in pairs:
        for column in COLUMNS:
            text = json.dumps([int(value) for value in pair[column]])
            found[column].append(hashlib.sha256(text.encode()).hexdigest()[:12])
    return found


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_folder", type=Path)
    parser.add_argument("tokenizer_model", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("preference_goldens.json"))
    given = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    warnings.simplefilter("ignore")

    import importlib.metadata

    import torchtune.datasets  # pyright: ignore[reportMissingImports]
    from torchtune.data import Message  # pyright: ignore[reportMissingImports]
    from torchtune.datasets import PreferenceDataset  # pyright: ignore[reportMissingImports]
    from torchtune.models.llama3 import llama3_tokenizer  # pyright: ignore[reportMissingImports]

    roles = {"human": "user", "gpt": "assistant", "system": "system"}

    def pairs_of(row: Mapping[str, Any], *, trains_prompt: bool) -> dict[str, Any]:
        prompt = [
            Message(role=role, content=turn["value"], masked=role != "assistant" or not trains_prompt)
            for turn, role in ((turn, roles[turn["from"]]) for turn in row["conversations"])
        ]
        return {
            side: [*prompt, Message(role=roles[row[side]["from"]], content=row[side]["value"])]
            for side in ("chosen", "rejected")
        }

    golden = {}
    for name, spec in CASES.items():
        tokenizer = llama3_tokenizer(str(given.tokenizer_model), max_seq_len=spec["max_seq_len"])
        source = {"source": "json", "data_files": str(given.data_folder / spec["data_file"])}
        if spec["builder"] == "PreferenceDataset":

            def transform(row: Mapping[str, Any], trains_prompt: bool = "all answers" in name) -> dict[str, Any]:
                return pairs_of(row, trains_prompt=trains_prompt)

            dataset: Any = PreferenceDataset(message_transform=transform, tokenizer=tokenizer, split="train", **source)
        else:
            dataset = getattr(torchtune.datasets, spec["builder"])(tokenizer, **source, **spec["arguments"])
        golden[name] = {**spec, "digests": digests(dataset[index] for index in range(len(dataset)))}
        print(f"{name}: {len(dataset)} pairs", flush=True)
    packages = ("torchtune", "torchao", "tiktoken", "datasets", "torch")
    made_with = {package: importlib.metadata.version(package) for package in packages}
    given.out.write_text(json.dumps({"made_with": made_with, "cases": golden}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
