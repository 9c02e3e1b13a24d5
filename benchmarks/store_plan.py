"""Seconds of plans of many lengths, and how full their packs are.

    python store_plan.py sorted|streamed LENGTHS.npy NUM_LENGTHS

The lengths are drawn with a seed from those in LENGTHS.npy, real ones. ``sorted`` is best-fit-decreasing, beside a
stable argsort of the same array; ``streamed`` is best-fit in order with at most 64 open packs. The peak of
memory is what planning adds to what the process held before.
"""

import json
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

CAPACITY = 4096
MAX_OPEN_PACKS = 64


def measure(way: str, lengths: np.ndarray) -> dict[str, Any]:
    """Seconds, fill, the bytes that planning adds at its peak, and, of few lengths, the seconds of the argsort."""
    from torchpipe.data.packing.plan import plan_packs

    before = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    if way == "sorted":
        plan = plan_packs(lengths, CAPACITY)
    else:
        plan = plan_packs(lengths, CAPACITY, strategy="best_fit", max_open_packs=MAX_OPEN_PACKS)
    seconds = time.process_time() - start
    fill = int(lengths.sum(dtype=np.int64)) / (len(plan) * CAPACITY)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    if len(lengths) <= 10_000_000:
        np.argsort(lengths, kind="stable")
    return {"seconds": seconds, "argsort": time.process_time() - start, "fill": fill, "added": peak - before}


def main(arguments: Sequence[str]) -> None:
    """Prints one JSON object."""
    way, file, num_lengths = arguments
    known = np.load(file).astype(np.uint32)
    rng, lengths = np.random.default_rng(0), np.empty(int(num_lengths), dtype=np.uint32)
    for start in range(0, len(lengths), 1 << 20):
        some = lengths[start : start + (1 << 20)]
        some[:] = known[rng.integers(0, len(known), len(some))]
    print(json.dumps(measure(way, lengths)))


if __name__ == "__main__":
    main(sys.argv[1:])
