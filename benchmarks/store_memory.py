"""Anonymous memory of a rank and its workers that read packed batches from a store, or from a data set of nothing.

    python store_memory.py store STORE_FOLDER | nothing | torchtune FOLDER

``store`` packs and reads batches of [4, 4096] from all over the store, in two workers. ``nothing`` is the same process,
whose data set holds no samples and gives packs of padding. Memory is ``Anonymous`` of /proc/PID/smaps_rollup: what a
process holds for itself, without the pages that it shares with others or that the disk holds. ``torchtune`` is the
growth of a process in which PackedDataset packs the samples of ``store_inputs.write_inputs``, which come one by one.
"""

import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

NUM_WORKERS = 2
NUM_BATCHES = 500
CAPACITY = 4096


def anonymous_bytes(process: int | None = None) -> int:
    """What a process holds for itself; this one if None."""
    lines = Path(f"/proc/{process or os.getpid()}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))


class Nothing(Dataset[dict[str, torch.Tensor]]):
    """As many packs of padding as are asked for."""

    def __len__(self) -> int:
        return 4 * (NUM_BATCHES + 1)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        from torchpipe.data.packing import padding_pack

        return padding_pack(CAPACITY, padding_idx=0, has_weights=False)


def of_loader(store: Path | None) -> dict[str, int]:
    """The bytes of this process and of the larger worker after many batches, and the store's tokens."""
    from torchpipe.data import padded_collate_packed
    from torchpipe.datasets import PackedDataset
    from torchpipe.store import TokenStore

    opened = None if store is None else TokenStore.open(store)
    packed: Any = Nothing()
    if opened is not None:
        packed = PackedDataset(opened, max_seq_len=CAPACITY, strategy="best_fit_decreasing")
    collate = partial(padded_collate_packed, mask="varlen")
    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(
        packed, batch_size=4, shuffle=True, collate_fn=collate, num_workers=NUM_WORKERS, generator=generator
    )
    batches: Any = iter(loader)
    for batch in islice(batches, min(NUM_BATCHES, len(loader) - 1)):  # the workers end with the last one
        assert batch["tokens"].shape[1] == CAPACITY
    workers = [anonymous_bytes(worker.pid) for worker in batches._workers]
    return {"rank": anonymous_bytes(), "worker": max(workers), "tokens": 0 if opened is None else opened.num_tokens}


class Samples:
    """Samples as lists, made when they are asked for, so that none is held."""

    def __init__(self, folder: Path) -> None:
        import numpy as np

        self._folder, self._num = folder, len(np.load(folder / "samples" / "lengths.npy"))

    def __len__(self) -> int:
        return self._num

    def __iter__(self) -> Iterator[dict[str, list[int]]]:
        from store_inputs import samples_of

        for tokens, labels in samples_of(self._folder):
            yield {"tokens": tokens.tolist(), "labels": labels.tolist()}


def of_torchtune(folder: Path) -> dict[str, int]:
    """The bytes that torchtune's packs add."""
    from torchtune.datasets import PackedDataset  # pyright: ignore[reportMissingImports]

    samples: Any = Samples(folder)
    tokens = sum(len(sample["tokens"]) for sample in samples)
    before = anonymous_bytes()
    packed = PackedDataset(samples, max_seq_len=CAPACITY)
    return {"rank": anonymous_bytes() - before, "tokens": tokens, "packs": len(packed)}


def main(arguments: Sequence[str]) -> None:
    """Prints one JSON object."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    what, *folders = arguments
    if what == "torchtune":
        print(json.dumps(of_torchtune(Path(folders[0]))))
    else:
        print(json.dumps(of_loader(Path(folders[0]) if what == "store" else None)))


if __name__ == "__main__":
    main(sys.argv[1:])
