"""Seconds of batches of [4, 4096] packed tokens from a DataLoader in one process, in shuffled order.

    python store_batches.py torchpipe|torchtune|trl FOLDER

FOLDER is that of ``store_inputs.write_inputs``. torchpipe reads its store and makes masks of offsets. torchtune's packs
are int64 tensors in memory, made before: ``ready`` stacks them and makes no mask, ``torchtune`` is its own collater
with its dense mask. TRL's loader reads its packed Arrow table with its padding-free collater. Each way first gives some
batches that don't count. A batch of torchtune's and TRL's packs holds less: they are less full.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from store_inputs import CAPACITY, samples_of
from torch.utils.data import DataLoader

BATCH_SIZE = 4
NUM_BATCHES = {"torchpipe": 500, "ready": 500, "torchtune": 12, "trl": 60}
NUM_PACKS = 1000
"""torchtune packs so many at most: enough that they don't fit a processor's cache."""


def loader(dataset: Any, collate_fn: Callable[[Any], Any]) -> Iterable[Any]:
    """A loader as a recipe makes it."""
    generator = torch.Generator().manual_seed(0)
    return DataLoader(
        dataset, batch_size=BATCH_SIZE, shuffle=True, drop_last=True, collate_fn=collate_fn, generator=generator
    )


def torchpipe_loaders(folder: Path) -> dict[str, Iterable[Any]]:
    """Packs of a store."""
    from torchpipe.data import padded_collate_packed
    from torchpipe.datasets import PackedDataset
    from torchpipe.store import TokenStore

    store = TokenStore.open(json.loads((folder / "store.json").read_text(encoding="utf-8")))
    packed = PackedDataset(store, max_seq_len=CAPACITY, strategy="best_fit_decreasing")
    return {"torchpipe": loader(packed, partial(padded_collate_packed, mask="varlen"))}


def torchtune_loaders(folder: Path) -> dict[str, Iterable[Any]]:
    """torchtune's packs, stacked without a mask and collated with it."""
    from torchtune.data import padded_collate_packed  # pyright: ignore[reportMissingImports]
    from torchtune.datasets import PackedDataset  # pyright: ignore[reportMissingImports]

    lengths = np.load(folder / "samples" / "lengths.npy")
    needed = int(np.searchsorted(np.cumsum(lengths, dtype=np.int64), NUM_PACKS * CAPACITY)) + 1
    some = islice(samples_of(folder), needed)  # the others would be read for nothing
    samples = [{"tokens": tokens.tolist(), "labels": labels.tolist()} for tokens, labels in some]
    packed = PackedDataset(samples, max_seq_len=CAPACITY, max_packs=NUM_PACKS)
    return {"ready": loader(packed, stacked), "torchtune": loader(packed, padded_collate_packed)}


def stacked(batch: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """The least that a loader of ready packs does."""
    return {key: torch.stack([item[key] for item in batch]) for key in ("tokens", "labels", "input_pos")}


def trl_loaders(folder: Path) -> dict[str, Iterable[Any]]:
    """TRL's packed table and its collater."""
    from store_pack import arrow_samples
    from trl import pack_dataset  # pyright: ignore[reportMissingImports]
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling  # pyright: ignore[reportMissingImports]

    packed = pack_dataset(arrow_samples(folder), CAPACITY, "bfd")
    return {"trl": loader(packed, DataCollatorForLanguageModeling(pad_token_id=0, padding_free=True))}


LOADERS = {"torchpipe": torchpipe_loaders, "torchtune": torchtune_loaders, "trl": trl_loaders}


def endless(batches: Iterable[Any]) -> Iterable[Any]:
    """One epoch after the other."""
    while True:
        yield from batches


def main(arguments: Sequence[str]) -> None:
    """Prints one JSON object: way to microseconds a batch."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    package, folder = arguments
    measured = {}
    for name, batches in LOADERS[package](Path(folder)).items():
        given = iter(endless(batches))
        for _ in islice(given, NUM_BATCHES[name] // 4):
            pass
        start = time.process_time()
        for batch in islice(given, NUM_BATCHES[name]):
            assert batch.get("tokens", batch.get("input_ids")).numel() <= BATCH_SIZE * CAPACITY
        measured[name] = 1e6 * (time.process_time() - start) / NUM_BATCHES[name]
    print(json.dumps(measured))


if __name__ == "__main__":
    main(sys.argv[1:])
