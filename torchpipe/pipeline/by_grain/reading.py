"""Grain's data sets as nodes of a graph give them, and how they are read."""

from typing import Any, TypeAlias

from torchpipe.pipeline.by_grain.library import grain
from torchpipe.pipeline.types import DatasetBuildContext

GrainDataset: TypeAlias = grain.MapDataset | grain.IterDataset
"""What a node of a graph builds: rows by number, or a stream."""

IN_THIS_THREAD = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
"""No threads: what they hand over costs more than a row that lies in memory or is parsed."""


def as_stream(dataset: GrainDataset, context: DatasetBuildContext) -> grain.IterDataset[Any]:
    """The rows one after the other, without those that are left out; read as the context says."""
    if isinstance(dataset, grain.IterDataset):
        return dataset
    return dataset.to_iter_dataset(read_options=context.read_options or IN_THIS_THREAD)
