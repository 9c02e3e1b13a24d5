"""The rows of several nodes, one node after the other, as one data set of Grain."""

from typing import Any

from torchpipe.errors import KindError
from torchpipe.pipeline.by_grain.library import grain
from torchpipe.pipeline.by_grain.order import EpochOrder
from torchpipe.pipeline.child_policies import child_names, child_policies
from torchpipe.pipeline.dataset import DatasetConcatConfig
from torchpipe.pipeline.types import DatasetBuildContext, DatasetIterationPolicy


def built_concat(
    config: DatasetConcatConfig, context: DatasetBuildContext, policy: DatasetIterationPolicy
) -> grain.MapDataset[Any]:
    """The data set of a :class:`~torchpipe.pipeline.DatasetConcatConfig`; see there."""
    names = child_names(config.datasets)
    policies = child_policies(names, policy, shuffle=False, repeat=False, dp_rank=0, dp_world_size=1)
    built: list[grain.MapDataset[Any]] = []
    for child, name, own in zip(config.datasets, names, policies, strict=True):
        dataset = child.build(context=context, dataset_iteration_policy=own)
        if not isinstance(dataset, grain.MapDataset):
            raise KindError(
                f"DatasetConcatConfig requires map-style children; {name} gives a stream. Mix it in with "
                "DatasetMixConfig, or concatenate what is read by number and pack the whole."
            )
        built.append(dataset)
    called = config.name or f"a concatenation of {len(names)}"
    return EpochOrder(grain.MapDataset.concatenate(built), policy, called=called)
