"""The policies that a node hands to those below it: each child's seed is hashed from its name."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torchpipe._seeds import derive
from torchpipe.data.node_names import node_names
from torchpipe.pipeline.dataset import WeightedDataset
from torchpipe.pipeline.node_label import node_label
from torchpipe.pipeline.types import DatasetIterationPolicy


def child_names(children: Sequence[Any]) -> list[str]:
    """The names of a node's children; equal ones of data sets are numbered, since one may stand there several times.

    Args:
        children: data sets, called by their ``name`` or else a label; or :class:`~torchpipe.pipeline.WeightedDataset`,
            whose ``name`` comes first.

    Raises:
        ConfigError: two weighted data sets are given one name.
    """
    weighted = [child if isinstance(child, WeightedDataset) else None for child in children]
    nodes = [child if one is None else one.dataset for child, one in zip(children, weighted, strict=True)]
    given = [None if one is None else one.name for one in weighted]
    return node_names(given, [node_label(node) for node in nodes])


def child_policies(
    names: Sequence[str], policy: DatasetIterationPolicy, **changes: Any
) -> list[DatasetIterationPolicy]:
    """The policy of each child, by its name.

    Args:
        names: of the children.
        policy: the parent's.
        changes: fields that differ from it.
    """
    return [replace(policy, seed=derive(policy.seed, "child", name), **changes) for name in names]


def seed_32(seed: int, *path: str | int) -> int:
    """A seed of 32 bits, which is what Grain takes, for one purpose.

    >>> 0 <= seed_32(3, "shuffle") < 2**32
    True
    """
    return derive(seed, *path) % 2**32
