"""The share of a run that a training loop waits for packed batches, with or without workers.

    python store_waiting.py STORE_FOLDER NUM_STEPS NUM_WORKERS [READ_AHEAD]

A step is a sleep of 50 ms, as of a process that waits for its accelerator, and then the next batch of [4, 4096], from
the loader that the recipe has. READ_AHEAD is its argument of that name; without it, its default. What is printed:
``share``, of the wall time; and ``cpu_share``, the processor time that the training thread spends on batches, over the
same, which other work of the machine does not lengthen.
"""

import json
import sys
import time
import warnings
from collections.abc import Sequence
from functools import partial

import torch

STEP_SECONDS = 0.05


def main(arguments: Sequence[str]) -> None:
    """Prints one JSON object."""
    from torchpipe.data import padded_collate_packed
    from torchpipe.datasets import PackedDataset
    from torchpipe.loading import GlobalSteps, StepLoader
    from torchpipe.store import TokenStore

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    store, num_steps = TokenStore.open(arguments[0]), int(arguments[1])
    packed = PackedDataset(store, max_seq_len=4096, strategy="best_fit_decreasing")
    loader = StepLoader(
        packed,
        GlobalSteps.of(packed, global_batch_size=4),
        batch_size=4,
        collate_fn=partial(padded_collate_packed, mask="varlen"),
        num_workers=int(arguments[2]),
        read_ahead=int(arguments[3]) if len(arguments) > 3 else None,
    )
    steps = loader.until(num_steps + 1)
    next(steps)  # the workers have started
    time.sleep(10 * STEP_SECONDS)
    waited, computed, done = 0.0, 0.0, 0
    while True:
        start, cpu_start = time.perf_counter(), time.thread_time()
        if next(steps, None) is None:
            break
        waited, computed, done = (
            waited + time.perf_counter() - start,
            computed + time.thread_time() - cpu_start,
            done + 1,
        )
        time.sleep(STEP_SECONDS)
    whole = waited + done * STEP_SECONDS
    print(json.dumps({"share": waited / whole, "cpu_share": computed / whole, "steps": done}))


if __name__ == "__main__":
    main(sys.argv[1:])
