"""Batches of one epoch of a planned graph: source, shuffle, map and first-fit packing to rows of 4,096 tokens.

    python pipeline_rows.py planned FOLDER CACHE NUM_PREFETCHED
    python pipeline_rows.py restore FOLDER CACHE STATE
    python pipeline_rows.py memory FOLDER CACHE NUM_BATCHES

FOLDER is that of ``pipeline_documents.py``. ``planned`` gives all batches, for which it plans the epoch; the store in
CACHE is built where there is none, which counts apart. ``restore`` goes on from a state, and tells the seconds until
its first batch. ``memory`` tells what two workers, which make batches from the beginning, and the process that asks for
them hold for themselves. Prints one JSON object.
"""

import json
import os
import resource
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from pipeline_documents import CAPACITY, MemmapSource, TokensToTextSequence
from store_memory import anonymous_bytes

from torchpipe.store.plans import PLANS

Batch = tuple[dict[str, Any], torch.Tensor]


def loader_of(folder: str, cache: str, **settings: Any) -> Any:
    """The loader of the planned graph."""
    from torchpipe.pipeline import FirstFitPackingConfig, GrainDataLoader, SingleDatasetConfig

    documents = SingleDatasetConfig(
        source=MemmapSource.Config(folder=folder), processor=TokensToTextSequence.Config(), name="documents"
    )
    config = GrainDataLoader.Config(
        dataset=FirstFitPackingConfig(dataset=documents), planned=True, cache_dir=cache, **settings
    )
    return config.build(tokenizer=None, max_context_length=CAPACITY, num_tokens_per_batch=CAPACITY)


def planned(folder: str, cache: str, num_prefetched: str) -> dict[str, Any]:
    """CPU and wall seconds of all batches, their plan included, and of the build before."""
    start = now()
    store = loader_of(folder, cache).rows.graph.stores[0]
    built = now()
    shutil.rmtree(store.path / PLANS, ignore_errors=True)
    loaders: list[Any] = []

    def batches() -> Iterator[Batch]:
        # The store is opened, and the epoch planned, within the time.
        loaders.append(loader_of(folder, cache, num_epochs=1, num_prefetch_batches=int(num_prefetched)))
        yield from loaders[0]

    told = timed(batches())
    return {**seconds("build", start, built), **told, "state": loaders[0].state_dict()}


def restore(folder: str, cache: str, state: str) -> dict[str, float]:
    """CPU and wall seconds from nothing, but for imports, to the first batch behind a state."""
    start = now()
    loader = loader_of(folder, cache)
    loader.load_state_dict(json.loads(state))
    batch, _ = next(iter(loader))
    told = seconds("restore", start, now())
    loader.close()
    return {**told, "tokens": batch["num_valid_tokens"]}


def memory(folder: str, cache: str, num_batches: str) -> dict[str, int]:
    """Anonymous bytes of this process and of the larger one of two workers after so many batches."""
    loader = loader_of(folder, cache, num_workers=2)
    for _ in islice(loader, int(num_batches)):
        pass
    workers = [anonymous_bytes(int(worker)) for worker in _children() if worker]
    told = {"rank": anonymous_bytes(), "worker": max(workers)}
    loader.close()
    return told


def _children() -> list[str]:
    """The processes whose parent this one is."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="utf-8").split()


def timed(batches: Iterable[Batch]) -> dict[str, float]:
    """CPU and wall seconds of all batches, how many there are, and how full."""
    start, rows, tokens = now(), 0, 0
    for batch, _ in batches:
        rows += 1
        tokens += batch["num_valid_tokens"]  # every token is trained
    return {**seconds("rows", start, now()), "rows": rows, "fill": tokens / (rows * CAPACITY)}


def now() -> tuple[float, float]:
    """CPU seconds of this process and of those that it has started and that ended, and a clock's."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)  # those that built the store
    return time.process_time() + ended.ru_utime + ended.ru_stime, time.perf_counter()


def seconds(of: str, start: tuple[float, float], stop: tuple[float, float]) -> dict[str, float]:
    """The seconds between two times of :func:`now`, by what they are of and which clock told them."""
    return {f"{of}_{clock}": after - before for clock, before, after in zip(("cpu", "wall"), start, stop, strict=True)}


WAYS: dict[str, Callable[..., Any]] = {
    "planned": planned,
    "restore": restore,
    "memory": memory,
}


def main(arguments: Sequence[str]) -> None:
    """Prints one JSON object."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    way, *others = arguments
    print(json.dumps(WAYS[way](*others)))


if __name__ == "__main__":
    main(sys.argv[1:])
