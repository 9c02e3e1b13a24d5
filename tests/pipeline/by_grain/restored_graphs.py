"""Graphs whose states go on in another process. Run as a script: states by name from standard input, what follows each
to standard output, both as JSON.
"""

import itertools
import json
import sys
from dataclasses import dataclass
from typing import Any

import grain
import numpy as np

from torchpipe.pipeline import (
    ConcatThenSplitPackingConfig,
    DatasetBuildContext,
    DatasetConcatConfig,
    DatasetIterationPolicy,
    DatasetMixConfig,
    FirstFitPackingConfig,
    SampleProcessor,
    SingleDatasetConfig,
    TextSequence,
    WeightedDataset,
)
from torchpipe.pipeline.by_grain.reading import IN_THIS_THREAD

NUM_ROWS = 25


class Cutting(SampleProcessor):
    """A number to a document of random length; a tenth of them are left out."""

    def __call__(self, sample: int, rng: np.random.Generator) -> TextSequence | None:
        if rng.random() < 0.1:
            return None
        ids = 1000 * sample + np.arange(int(rng.integers(1, 30)))
        return TextSequence(input_ids=ids, labels=ids + 1)


def documents(name: str, first: int, stop: int) -> SingleDatasetConfig:
    return SingleDatasetConfig(source=range(first, stop), processor=Cutting.Config(), name=name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Web:
    """A stream of numbers, of which each rank has its part."""

    stop: int

    def build(self, *, dataset_iteration_policy: DatasetIterationPolicy) -> grain.IterDataset[int]:
        policy = dataset_iteration_policy
        part = range(10_000, 10_000 + self.stop)[policy.dp_rank :: policy.dp_world_size]
        return grain.MapDataset.source(part).repeat().to_iter_dataset(IN_THIS_THREAD)


def stream(name: str, stop: int) -> SingleDatasetConfig:
    return SingleDatasetConfig(source=Web(stop=stop), processor=Cutting.Config(), name=name)


def graphs() -> dict[str, Any]:
    """Each is endless, and holds part-full rows, held rows of mixes or windows at nearly every step."""
    one, two, web = documents("one", 0, 40), documents("two", 40, 60), stream("web", 500)
    mixed = DatasetMixConfig(
        datasets=(WeightedDataset(dataset=one, weight=2.0), WeightedDataset(dataset=web)), by="tokens", name="mixed"
    )
    first_fit = FirstFitPackingConfig(dataset=mixed, num_packing_bins=3, overflow="split")
    concat = ConcatThenSplitPackingConfig(dataset=DatasetConcatConfig(datasets=(one, two, two)))
    nested = FirstFitPackingConfig(
        dataset=DatasetMixConfig(
            datasets=(WeightedDataset(dataset=first_fit), WeightedDataset(dataset=two, max_epochs=4))
        ),
        num_packing_bins=2,
        overflow="split",
    )
    return {"mixed": mixed, "first_fit": first_fit, "concat": concat, "nested": nested, "web": web}


def dataset_of(config: Any, max_num_documents: int | None = None) -> Any:
    context = DatasetBuildContext(
        tokenizer=None, max_context_length=16, num_tokens_per_batch=48, max_num_documents=max_num_documents
    )
    policy = DatasetIterationPolicy(
        seed=5, shuffle=True, repeat=True, dp_rank=1, dp_world_size=2, streaming_shuffle_buffer_size=7
    )
    return config.build(context=context, dataset_iteration_policy=policy)


def rows_of(config: Any, max_num_documents: int | None = None) -> Any:
    dataset = dataset_of(config, max_num_documents)
    return iter(dataset.to_iter_dataset() if isinstance(dataset, grain.MapDataset) else dataset)


def as_list(row: TextSequence) -> list[Any]:
    found = (row.input_ids, row.labels, row.positions, row.padding_mask)
    return [None if values is None else values.tolist() for values in found]


def as_dict(row: TextSequence) -> dict[str, Any]:
    return {"input_ids": row.input_ids, "labels": row.labels}


def following(name: str, cap: int | None, state: Any) -> list[Any]:
    rows = rows_of(graphs()[name], cap)
    rows.set_state(state)
    return [as_list(row) for row in itertools.islice(rows, NUM_ROWS)]


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    json.dump([following(name, cap, state) for name, cap, state in asked], sys.stdout)
