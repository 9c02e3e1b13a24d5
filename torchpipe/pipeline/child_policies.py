"""The policies that a node hands to those below it: each child's seed is hashed from its name."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torchpipe._seeds import derive
from torchpipe.data.node_names import node_names
from torchpipe.pipeline.node_label import node_label
from torchpipe.pipeline.types import DatasetIterationPolicy


def child_names(children: Sequence[Any]) -> list[str]:
    """The names of a node's children: ``name`` of each, or of what it weighs, or else a label; equal ones numbered.

    Args:
        children: configs, or :class:`~torchpipe.pipeline.WeightedDataset`.

    Raises:
        ConfigError: two are given one name.
    """
    nodes = [getattr(child, "dataset", child) if hasattr(child, "weight") else child for child in children]
    given = [
        getattr(child, "name", None) or getattr(node, "name", None) for child, node in zip(children, nodes, strict=True)
    ]
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
