"""CPU seconds from samples that are tokenised already to packs of 4,096 tokens, on one thread.

    python store_pack.py torchpipe|torchpipe-read|plan|torchtune|trl|grain|grain-read FOLDER

FOLDER is that of ``store_inputs.write_inputs``. Each gets the samples in the form that it keeps them in, made before
the clock starts: torchpipe its store; torchtune lists of integers; TRL an Arrow table; Grain numpy arrays in memory.

All of them hold all packs at the end: torchpipe and torchtune as tensors, TRL as an Arrow table, Grain as arrays. With
``-read`` a pack is let go when the next ones are read, as in training, so that all of them take turns in a few
megabytes of memory; torchtune and TRL have no such way. What it saves is the system's time for fresh memory, 24 bytes a
token. ``plan`` is torchpipe's plan alone, which is all that it makes before training. Fill is tokens over places.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from store_inputs import CAPACITY, samples_of

PACKS_AT_ONCE = 16
"""Packs that torchpipe is asked for together, as in a large batch."""
Packing = Callable[[], int]
"""Packs all samples and returns the number of packs."""


def torchpipe_packs(folder: Path, kept: Literal["all", "some", "none"]) -> Packing:
    """Best-fit-decreasing over a store: with all packs as tensors, with a few at a time, or the plan without packs."""
    from torchpipe.data.packing import assemble, plan_packs
    from torchpipe.store import TokenStore

    store = TokenStore.open(json.loads((folder / "store.json").read_text(encoding="utf-8")))

    def run() -> int:
        plan = plan_packs(store.lengths, CAPACITY)
        packs: list[Any] = []
        for first in range(0, len(plan) if kept != "none" else 0, PACKS_AT_ONCE):
            some = range(first, min(first + PACKS_AT_ONCE, len(plan)))
            if kept == "some":
                packs.clear()
            packs += assemble(plan, some, store, capacity=CAPACITY, padding_idx=0)
        return len(plan)

    return run


def torchtune_packs(folder: Path) -> Packing:
    """torchtune's PackedDataset over a list of samples."""
    from torchtune.datasets import PackedDataset  # pyright: ignore[reportMissingImports]

    samples = [{"tokens": tokens.tolist(), "labels": labels.tolist()} for tokens, labels in samples_of(folder)]
    return lambda: len(PackedDataset(samples, max_seq_len=CAPACITY))


def trl_packs(folder: Path) -> Packing:
    """TRL's pack_dataset with "bfd", over a table in memory."""
    from trl import pack_dataset  # pyright: ignore[reportMissingImports]

    rows = arrow_samples(folder)
    return lambda: len(pack_dataset(rows, CAPACITY, "bfd"))


def arrow_samples(folder: Path) -> Any:
    """The samples as TRL's preparation leaves them."""
    import datasets
    import pyarrow

    datasets.disable_caching()
    datasets.disable_progress_bars()
    tokens, labels = zip(*samples_of(folder), strict=True)
    offsets = np.cumsum([0, *map(len, tokens)], dtype=np.int32)
    columns = {"input_ids": np.concatenate(tokens).astype(np.int32), "labels": np.concatenate(labels)}
    lists = {name: pyarrow.ListArray.from_arrays(offsets, values) for name, values in columns.items()}
    return datasets.Dataset(pyarrow.table(lists))


def grain_packs(folder: Path, *, held: bool) -> Packing:
    """Grain's first-fit with 64 bins, its default order of bins."""
    import grain  # pyright: ignore[reportMissingTypeStubs]
    from grain.experimental import FirstFitPackIterDataset

    samples = [{"tokens": tokens, "labels": labels} for tokens, labels in samples_of(folder)]
    lengths = {"tokens": CAPACITY, "labels": CAPACITY}

    def run() -> int:
        rows = grain.MapDataset.source(samples).to_iter_dataset(grain.ReadOptions(num_threads=0))
        packs = FirstFitPackIterDataset(rows, length_struct=lengths, num_packing_bins=64)
        return len(list(packs)) if held else sum(1 for _ in packs)

    return run


WAYS: dict[str, Callable[[Path], Packing]] = {
    "torchpipe": partial(torchpipe_packs, kept="all"),
    "torchpipe-read": partial(torchpipe_packs, kept="some"),
    "plan": partial(torchpipe_packs, kept="none"),
    "torchtune": torchtune_packs,
    "trl": trl_packs,
    "grain": partial(grain_packs, held=True),
    "grain-read": partial(grain_packs, held=False),
}


def main(arguments: Sequence[str]) -> None:
    """Prints one JSON object."""
    warnings.simplefilter("ignore")
    way, folder = arguments
    run = WAYS[way](Path(folder))
    num_tokens = int(np.load(Path(folder) / "samples" / "lengths.npy").sum())
    start = time.process_time()
    packs = run()
    seconds = time.process_time() - start
    print(json.dumps({"seconds": seconds, "tokens": num_tokens, "fill": num_tokens / (packs * CAPACITY)}))


if __name__ == "__main__":
    main(sys.argv[1:])
