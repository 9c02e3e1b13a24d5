"""CPU seconds to read rows of a mix of 8 sources and of one source that has the same rows, on one thread.

    python mix.py items|packs FOLDER NUM_ROWS

FOLDER is that of ``store_inputs.write_inputs``, whose stores are built there first. The rows are the first of its
chats: one stored data set has all of them, the mix has eight that have an eighth each. ``items``
reads every row in shuffled order, 8 at once, as a DataLoader does; ``packs`` every pack of 4,096 tokens, 4 at once. The
two take turns, and the quickest of several passes counts.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torchpipe._seeds import hashed_permutation
from torchpipe.datasets import MixDataset, PackedDataset, StoredDataset, chat_dataset
from torchpipe.models.llama3 import llama3_tokenizer

NUM_SOURCES = 8
ROUNDS = 5
CAPACITY = 4096
ITEMS_AT_ONCE, PACKS_AT_ONCE = 8, 4


def stored(folder: Path, first: int, last: int) -> StoredDataset:
    """Rows ``first:last`` of the chats, tokenised."""
    dataset: Any = chat_dataset(
        llama3_tokenizer(str(folder / "ranks.model"), max_seq_len=CAPACITY),
        source="json",
        data_files=str(folder / "chats.jsonl"),
        split=f"train[{first}:{last}]",
        conversation_column="messages",
        conversation_style="openai",
        cache=True,
        cache_dir=str(folder / "mix"),
    )
    return dataset


def packed(dataset: Any) -> PackedDataset:
    """Packs of a data set, as full as they get."""
    return PackedDataset(dataset, max_seq_len=CAPACITY, strategy="best_fit_decreasing")


def read(dataset: Any, at_once: int) -> int:
    """Reads every row in shuffled order, some at once, and returns their tokens."""
    tokens = 0
    many = getattr(dataset, "__getitems__", None) or (lambda rows: [dataset[row] for row in rows])
    order = hashed_permutation(len(dataset), seed=0).tolist()
    for first in range(0, len(order), at_once):
        for item in many(order[first : first + at_once]):
            tokens += len(item["tokens"])
    return tokens


def main(arguments: Sequence[str]) -> None:
    """Prints one JSON object: seconds of both, and what they gave."""
    what, folder, num_rows = arguments[0], Path(arguments[1]), int(arguments[2])
    cuts = [num_rows * place // NUM_SOURCES for place in range(NUM_SOURCES + 1)]
    parts = {f"part {place}": stored(folder, cuts[place], cuts[place + 1]) for place in range(NUM_SOURCES)}
    whole = stored(folder, 0, num_rows)
    mix = MixDataset(parts)  # by their sizes: each row is there once
    ways: dict[str, Callable[[], int]]
    if what == "items":
        ways = {"one": lambda: read(whole, ITEMS_AT_ONCE), "mix": lambda: read(mix, ITEMS_AT_ONCE)}
    else:
        packs, mixed = packed(whole), packed(mix)
        ways = {"one": lambda: read(packs, PACKS_AT_ONCE), "mix": lambda: read(mixed, PACKS_AT_ONCE)}
    best = dict.fromkeys(ways, float("inf"))
    gave: dict[str, int] = {}
    for _ in range(ROUNDS):
        for name, run in ways.items():
            start = time.process_time()
            gave[name] = run()
            best[name] = min(best[name], time.process_time() - start)
    print(json.dumps({name: {"seconds": best[name], "gave": gave[name]} for name in ways}))


if __name__ == "__main__":
    main(sys.argv[1:])
