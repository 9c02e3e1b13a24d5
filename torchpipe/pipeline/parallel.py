"""Which part of the rows a process has, where processes are laid out in several dimensions."""

from collections.abc import Sequence
from typing import Any

from torchpipe._suggest import listed
from torchpipe.errors import ConfigError

DATA_DIMENSIONS = ("dp_replicate", "dp_shard")
"""Dimensions whose processes get rows of their own. Those of all others (tensor, pipeline, context) share them."""


def data_parallel_rank(mesh: Any, dimensions: Sequence[str] = DATA_DIMENSIONS) -> tuple[int, int]:
    """The ``dp_rank`` and ``dp_world_size`` of this process in a device mesh: replicas times shards.

    Processes that differ in other dimensions alone have the same rank, and so the same batches.

    Args:
        mesh: a ``torch.distributed.DeviceMesh`` with named dimensions.
        dimensions: those that split the rows, the slowest first. One that the mesh has not counts as 1.

    Raises:
        ConfigError: the mesh has no names, or none of the dimensions.
    """
    names = getattr(mesh, "mesh_dim_names", None)
    if not names:
        raise ConfigError("The mesh has no names for its dimensions. Give it mesh_dim_names, or pass dp_rank yourself.")
    found = [name for name in dimensions if name in names]
    if not found:
        raise ConfigError(f"The mesh has the dimensions {listed(names)}, and none of {listed(dimensions)}.")
    rank, world_size = 0, 1
    for name in found:
        size = mesh[name].size()
        rank, world_size = rank * size + mesh.get_local_rank(name), world_size * size
    return rank, world_size
