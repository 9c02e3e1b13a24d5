"""The share of a run that a training loop waits for packed batches, with or without workers.

    python store_waiting.py STORE_FOLDER NUM_STEPS NUM_WORKERS

A step is a sleep of 50 ms, as of a process that waits for its accelerator, and then the next batch of [4, 4096].
"""

import json
import sys
import time
import warnings
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch.utils.data import DataLoader

STEP_SECONDS = 0.05


def main(arguments: Sequence[str]) -> None:
    """Prints one JSON object."""
    from torchpipe.data import padded_collate_packed
    from torchpipe.datasets import PackedDataset
    from torchpipe.store import TokenStore

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    store, num_steps = TokenStore.open(arguments[0]), int(arguments[1])
    packed = PackedDataset(store, max_seq_len=4096, strategy="best_fit_decreasing")
    collate = partial(padded_collate_packed, mask="varlen")
    batches: Any = iter(
        DataLoader(packed, batch_size=4, shuffle=True, collate_fn=collate, num_workers=int(arguments[2]))
    )
    next(batches)  # the workers have started
    time.sleep(10 * STEP_SECONDS)
    waited, steps = 0.0, 0
    for _ in islice(iter(int, 1), num_steps):
        start = time.perf_counter()
        if next(batches, None) is None:
            break
        waited, steps = waited + time.perf_counter() - start, steps + 1
        time.sleep(STEP_SECONDS)
    print(json.dumps({"share": waited / (waited + steps * STEP_SECONDS), "steps": steps}))


if __name__ == "__main__":
    main(sys.argv[1:])
