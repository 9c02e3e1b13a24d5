"""Wall and CPU seconds from a file of chats to packs of 4,096 tokens, for the first time, with two processes.

    python store_build.py torchpipe|torchtune|trl FOLDER NUM_ROWS

FOLDER is that of ``store_inputs.write_inputs``. torchpipe builds its store and a plan. torchtune's PackedDataset
tokenises and packs in its one process, for it has no other way; TRL prepares and packs with ``dataset_num_proc=2``.
Imports are not timed; reading the tokenizer and the file is. The CPU time is that of all processes.
"""

import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

CAPACITY = 4096
NUM_PROC = 2
CHAT: dict[str, Any] = {"source": "json", "conversation_column": "messages", "conversation_style": "openai"}


def torchpipe_packs(folder: Path, rows: str, scratch: Path) -> Callable[[], int]:
    """torchpipe's data set, packed."""
    import datasets  # noqa: F401  # imported where rows are read

    from torchpipe.datasets import chat_dataset
    from torchpipe.models.llama3 import llama3_tokenizer

    def run() -> int:
        tokenizer = llama3_tokenizer(str(folder / "ranks.model"), max_seq_len=CAPACITY)
        packed: Any = chat_dataset(
            tokenizer, data_files=str(folder / "chats.jsonl"), split=rows, packed=True, **CHAT,
            strategy="best_fit_decreasing", cache_dir=str(scratch / "cache"), num_proc=NUM_PROC,
        )  # fmt: skip
        return int(packed.plan.num_tokens.sum())

    return run


def torchtune_packs(folder: Path, rows: str, scratch: Path) -> Callable[[], int]:
    """torchtune's data set, packed."""
    from torchtune.datasets import chat_dataset  # pyright: ignore[reportMissingImports]
    from torchtune.models.llama3 import llama3_tokenizer  # pyright: ignore[reportMissingImports]

    def run() -> int:
        tokenizer = llama3_tokenizer(str(folder / "ranks.model"), max_seq_len=CAPACITY)
        file = str(folder / "chats.jsonl")
        cache = str(scratch / "datasets")
        packed: Any = chat_dataset(tokenizer, data_files=file, split=rows, packed=True, cache_dir=cache, **CHAT)
        return CAPACITY * len(packed)

    return run


def trl_packs(folder: Path, rows: str, scratch: Path) -> Callable[[], int]:
    """TRL's data set, packed."""
    import datasets
    import trl  # noqa: F401  # pyright: ignore[reportMissingImports]
    from trl_preparation import preparation

    datasets.disable_progress_bars()
    file, cache = str(folder / "chats.jsonl"), str(scratch / "datasets")

    def run() -> int:
        prepare = preparation(folder, eos="<|eot_id|>", bos="<|begin_of_text|>", num_proc=NUM_PROC, pack_at=CAPACITY)
        packed = prepare(datasets.load_dataset("json", data_files=file, split=rows, cache_dir=cache))
        return CAPACITY * len(packed)

    return run


WAYS: dict[str, Callable[[Path, str, Path], Callable[[], int]]] = {
    "torchpipe": torchpipe_packs,
    "torchtune": torchtune_packs,
    "trl": trl_packs,
}


def cpu_seconds() -> float:
    """CPU time of this process and its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main(arguments: Sequence[str]) -> None:
    """Prints one JSON object."""
    warnings.simplefilter("ignore")
    package, folder, num_rows = arguments
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        run = WAYS[package](Path(folder), f"train[:{int(num_rows)}]", Path(scratch))
        wall, cpu = time.perf_counter(), cpu_seconds()
        tokens = run()
        measured = {"wall": time.perf_counter() - wall, "cpu": cpu_seconds() - cpu, "tokens": tokens}
    print(json.dumps(measured))


if __name__ == "__main__":
    main(sys.argv[1:])
