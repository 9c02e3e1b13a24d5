"""One rank of several, under torchrun or alone: python ranks_of_graphs.py FOLDER CHECK ...

What a check gives goes to ``FOLDER/<check>.<world size>.<rank>.json``.
"""

import json
import os
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import torch.distributed as dist
from numbered_graphs import FINITE, cropped, loader_of, part_full, planned, stream, trained

from torchpipe.errors import DistributedError
from torchpipe.pipeline import GrainDataLoader, data_parallel_rank

FOLDER = Path(sys.argv[1])
RANK, WORLD_SIZE = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
TICKS = 7


def loader(dataset: Any, **options: Any) -> GrainDataLoader:
    return loader_of(dataset, str(FOLDER / "cache"), **{"rank": RANK, "world_size": WORLD_SIZE, **options})


def given(one: GrainDataLoader, ticks: int | None = None) -> list[list[int]]:
    found = [trained(batch) for batch in islice(iter(one), ticks)]
    one.close()
    return found


def finite() -> dict[str, Any]:
    """One pass over each graph, with and without the thread that reads ahead, and with a worker."""
    ways = {"thread": {}, "none": {"num_prefetch_batches": 0}}
    found = {
        f"{name}, {way}": given(loader(graph(), repeat=False, **options))
        for name, graph in FINITE.items()
        for way, options in ways.items()
    }
    return {**found, "stream, worker": given(loader(stream(), repeat=False, num_workers=1))}


def one_store() -> list[list[int]]:
    """One pass over a planned graph, whose rows all ranks need at once."""
    calls_file = str(FOLDER / f"calls.{WORLD_SIZE}")
    return given(loader(planned(103, calls_file=calls_file, seconds=0.005), repeat=False))


def failing() -> list[str]:
    """What each rank sees where one row can't be read, and then a pass that has no such row."""
    said = []
    try:
        loader(planned(bad=1700))
    except ValueError as error:
        said.append(f"{type(error).__name__}: {error}")
    for options in ({}, {"num_prefetch_batches": 0}, {"num_workers": 1}):
        rows = loader(stream(bad=1700), repeat=False, **options)
        try:
            given(rows)
        except (DistributedError, ValueError) as error:
            said.append(f"{type(error).__name__}: {error}")
            rows.close()
    return [*said, str(len(given(loader(stream(), repeat=False))))]


class AppState:
    """Loaders among what a training run saves."""

    def __init__(self) -> None:
        self.loaders = {way: loader(graph) for way, graph in part_full().items()}

    def state_dict(self) -> dict[str, Any]:
        return {"loaders": {way: one.state_dict() for way, one in self.loaders.items()}, "step": TICKS}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for way, one in self.loaders.items():
            one.load_state_dict(state_dict["loaders"][way])


def saving() -> dict[str, Any]:
    from torch.distributed.checkpoint.state_dict_saver import save

    app = AppState()
    found = {way: [trained(batch) for batch in islice(iter(one), TICKS)] for way, one in app.loaders.items()}
    save({"app": app}, checkpoint_id=FOLDER / "checkpoint", no_dist=not dist.is_initialized())
    for one in app.loaders.values():
        one.close()
    return found


def resuming() -> dict[str, Any]:
    from torch.distributed.checkpoint.state_dict_loader import load

    app = AppState()
    load({"app": app}, checkpoint_id=FOLDER / "checkpoint", no_dist=not dist.is_initialized())
    return {way: given(one, 4 * TICKS // WORLD_SIZE) for way, one in app.loaders.items()}


def whole() -> dict[str, Any]:
    """The batches of the run that was not stopped, of two logical shards, as one rank has them."""
    return {way: given(loader(one, num_logical_shards=2), 6 * TICKS) for way, one in part_full().items()}


def meshed() -> list[Any]:
    """Who this is in meshes of four processes, and what it is given."""
    from torch.distributed.device_mesh import init_device_mesh

    found = []
    for shape, names in (
        ((2, 1, 2), ("dp_replicate", "dp_shard", "tp")),
        ((1, 2, 2), ("dp_replicate", "dp_shard", "cp")),
        ((2, 2), ("dp_replicate", "dp_shard")),
    ):
        rank, world_size = data_parallel_rank(init_device_mesh("cpu", shape, mesh_dim_names=names))
        place = {"rank": rank, "world_size": world_size, "repeat": False}
        rows = [given(loader(graph, **place)) for graph in (stream(), planned(33))]
        started = loader(cropped(), **{**place, "repeat": True})
        next(iter(started))
        found.append([[rank, world_size], rows, started.state_dict()])
        started.close()
    return found


def dying() -> list[Any]:
    """Rank 1 is gone in the middle of a pass."""
    found = []
    try:
        for batch in loader(stream(), repeat=False):
            found.append(trained(batch))
            if RANK == 1 and len(found) == 3:
                os._exit(9)
    except DistributedError as error:
        found.append(str(error))
    return found


CHECKS = {check.__name__: check for check in (finite, one_store, failing, saving, resuming, whole, meshed, dying)}

if __name__ == "__main__":
    if WORLD_SIZE > 1:
        dist.init_process_group("gloo")
    for name in sys.argv[2:]:
        (FOLDER / f"{name}.{WORLD_SIZE}.{RANK}.json").write_text(json.dumps(CHECKS[name]()))
    if WORLD_SIZE > 1:
        dist.barrier()
        dist.destroy_process_group()
