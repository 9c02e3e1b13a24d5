"""An epoch's plan of a graph of many samples: its time, and the memory that it takes while it is made and after.

    python pipeline_plan.py write FOLDER NUM_SAMPLES     a store of so many samples
    python pipeline_plan.py plan FOLDER                  plans an epoch, or reads the plan that is kept there
    python pipeline_plan.py forget FOLDER                removes the plans that are kept there

The samples are those of ``pipeline_documents.py``, made eight times shorter so that the store is small, and written
over and over; rows have 512 tokens, so that as many samples share one as at full length. Prints one JSON object.
"""

import json
import resource
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline_documents import CAPACITY, MemmapSource, TokensToTextSequence, write_documents
from store_inputs import write_repeated
from store_memory import anonymous_bytes

from torchpipe.pipeline import DatasetBuildContext, DatasetIterationPolicy, FirstFitPackingConfig, SingleDatasetConfig
from torchpipe.pipeline.planned.compile import planned_graph
from torchpipe.pipeline.planned.graph import PlannedGraph
from torchpipe.pipeline.planned.nodes import Leaf, Run
from torchpipe.pipeline.planned.packing import Packed
from torchpipe.store import TokenStore
from torchpipe.store.plans import PLANS

SHORTER = 8
SEED = 0
_BASE = 50_000
"""Samples that are processed; the others are copies."""


def write(folder: Path, num_samples: int) -> dict[str, int]:
    """Writes the store, and says how many samples it has."""
    num_tokens = write_documents(folder, min(_BASE, num_samples), shorter=SHORTER) + min(_BASE, num_samples)
    documents = SingleDatasetConfig(
        source=MemmapSource.Config(folder=str(folder)), processor=TokensToTextSequence.Config(), name="documents"
    )
    capacity = CAPACITY // SHORTER
    context = DatasetBuildContext(tokenizer=None, max_context_length=capacity, num_tokens_per_batch=capacity)
    policy = DatasetIterationPolicy(
        seed=SEED, shuffle=True, repeat=False, dp_rank=0, dp_world_size=1, streaming_shuffle_buffer_size=1
    )
    config = FirstFitPackingConfig(dataset=documents)
    base = planned_graph(config, context=context, policy=policy, cache_dir=folder / "cache").stores[0].path
    shutil.copytree(base, folder / "store")
    write_repeated(folder / "store", base, num_tokens * num_samples // min(_BASE, num_samples))
    return {"samples": TokenStore.open(folder / "store").num_samples}


def plan(folder: Path) -> dict[str, float]:
    """Seconds until the first epoch's rows are known, and the bytes that they take."""
    store = TokenStore.open(folder / "store")
    capacity = CAPACITY // SHORTER
    run = Run(
        seed=SEED,
        shuffle=True,
        capacity=capacity,
        max_context_length=capacity,
        max_num_documents=None,
        samples=store,
    )
    leaf = Leaf(name="documents", store=store, first_sample=0, made_of={})
    root = Packed(name="packed", part=leaf, strategy="best_fit_decreasing", overflow="drop")
    graph = PlannedGraph(root=root, run=run)
    before, peak_before = anonymous_bytes(), _peak()
    start, wall = time.process_time(), time.perf_counter()
    rows = graph.rows(0)
    first = rows.spans(0)
    cpu, wall = time.process_time() - start, time.perf_counter() - wall
    return {
        "cpu": cpu,
        "wall": wall,
        "peak": _peak() - peak_before,
        "steady": anonymous_bytes() - before,
        "rows": len(rows),
        "spans": len(rows.sample),
        "of_first": len(first),
    }


def forget(folder: Path) -> dict[str, int]:
    """Removes the kept plans."""
    shutil.rmtree(folder / "store" / PLANS)
    return {}


def _peak() -> int:
    """The most bytes that were resident at a time, mapped files included."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(arguments: Sequence[str]) -> None:
    """Prints one JSON object."""
    way, folder, *others = arguments
    ways: dict[str, Any] = {"write": write, "plan": plan, "forget": forget}
    print(json.dumps(ways[way](Path(folder), *map(int, others))))


if __name__ == "__main__":
    main(sys.argv[1:])
