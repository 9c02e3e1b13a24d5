"""The nodes of a graph as values: what is refused when they are written, and the same graph from YAML and Python."""

import dataclasses
import math
from typing import Any

import pytest
import yaml

from torchpipe._fingerprint import type_name
from torchpipe.config import instantiate
from torchpipe.errors import ConfigError
from torchpipe.pipeline import (
    ConcatThenSplitPackingConfig,
    DatasetConcatConfig,
    DatasetMixConfig,
    FirstFitPackingConfig,
    IndexedJsonlSource,
    MMSamplePackingConfig,
    SingleDatasetConfig,
    WeightedDataset,
)
from torchpipe.pipeline.by_grain.packed_rows import num_tokens_of
from torchpipe.pipeline.text_processor import TextProcessor

ONE = SingleDatasetConfig(source=[1])

YAML = """
_component_: torchpipe.pipeline.FirstFitPackingConfig
num_packing_bins: 4
overflow: split
dataset:
  _component_: torchpipe.pipeline.DatasetMixConfig
  by: tokens
  stop: all
  datasets:
    - _component_: torchpipe.pipeline.WeightedDataset
      weight: {0: 1.0, 100: 0.5}
      max_epochs: 2
      name: math
      dataset:
        _component_: torchpipe.pipeline.SingleDatasetConfig
        source:
          _component_: torchpipe.pipeline.IndexedJsonlSource.Config
          patterns: [data/*.jsonl]
        pre_filters: [torchpipe.pipeline.by_grain.packed_rows.num_tokens_of]
        processor:
          _component_: torchpipe.pipeline.text_processor.TextProcessor.Config
          text_fn: torchpipe._fingerprint.type_name
        on_error: skip
        max_error_share: 0.01
    - _component_: torchpipe.pipeline.WeightedDataset
      dataset:
        _component_: torchpipe.pipeline.DatasetConcatConfig
        datasets:
          - {_component_: torchpipe.pipeline.SingleDatasetConfig, source: [a, b], name: one}
          - _component_: torchpipe.pipeline.SingleDatasetConfig
            source: [c]
"""


def test_the_same_graph_is_made_by_yaml_and_by_python() -> None:
    made = instantiate(yaml.safe_load(YAML))
    assert made == FirstFitPackingConfig(
        num_packing_bins=4,
        overflow="split",
        dataset=DatasetMixConfig(
            by="tokens",
            stop="all",
            datasets=(
                WeightedDataset(
                    weight={0: 1.0, 100: 0.5},
                    max_epochs=2,
                    name="math",
                    dataset=SingleDatasetConfig(
                        source=IndexedJsonlSource.Config(patterns=("data/*.jsonl",)),
                        pre_filters=(num_tokens_of,),
                        processor=TextProcessor.Config(text_fn=type_name),
                        on_error="skip",
                        max_error_share=0.01,
                    ),
                ),
                WeightedDataset(
                    dataset=DatasetConcatConfig(
                        datasets=(
                            SingleDatasetConfig(source=["a", "b"], name="one"),
                            SingleDatasetConfig(source=["c"]),
                        )
                    )
                ),
            ),
        ),
    )


@pytest.mark.parametrize("weight", [0, -1.0, math.nan, math.inf, True, "2"])
def test_a_weight_that_is_no_number_above_0_is_refused(weight: Any) -> None:
    with pytest.raises(ValueError, match="^DatasetMixConfig requires finite, positive-weight datasets; the weight of "):
        DatasetMixConfig(datasets=(WeightedDataset(dataset=ONE, weight=weight),))


def test_a_mix_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="^DatasetMixConfig requires finite, positive-weight datasets; it has none"):
        DatasetMixConfig(datasets=())


def test_a_concatenation_of_nothing_is_refused() -> None:
    with pytest.raises(TypeError, match="^DatasetConcatConfig requires map-style children; it has none"):
        DatasetConcatConfig(datasets=())


@pytest.mark.parametrize("bins", [0, -1, True, 2.0])
@pytest.mark.parametrize("packing", [FirstFitPackingConfig, MMSamplePackingConfig])
def test_a_number_of_bins_that_can_not_be_is_refused(packing: Any, bins: Any) -> None:
    with pytest.raises(ValueError, match="^num_packing_bins must be positive; it is "):
        packing(dataset=ONE, num_packing_bins=bins)


@pytest.mark.parametrize("source", [3, "data.jsonl", {"text": "a"}, None, list])
def test_what_is_no_source_is_refused(source: Any) -> None:
    with pytest.raises(TypeError, match="^source must be a RandomAccessDataSource or grain.IterDataset; got "):
        SingleDatasetConfig(source=source)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: SingleDatasetConfig(source=[1], processor=len), "processor is a builtin_function_or_method, and has"),
        (lambda: SingleDatasetConfig(source=[1], pre_filters="keep"), "pre_filters is a str. Give several as a list"),
        (lambda: SingleDatasetConfig(source=[1], post_filters=[3]), "post_filters is 3, which can't be called"),
        (lambda: SingleDatasetConfig(source=[1], on_error="skp"), "on_error is 'skp'. .* Did you mean 'skip'"),  # pyright: ignore
        (lambda: SingleDatasetConfig(source=[1], max_error_share=0.1), "no effect with on_error='raise'"),
        (lambda: SingleDatasetConfig(source=[1], name=""), "A name is ''. Give a text, or leave it out"),
        (lambda: DatasetMixConfig(datasets=[ONE]), "holds a SingleDatasetConfig. Put it into a WeightedDataset"),  # pyright: ignore
        (lambda: DatasetMixConfig(datasets=[WeightedDataset(dataset=ONE)], by="token"), "Did you mean 'tokens'"),  # pyright: ignore
        (lambda: DatasetMixConfig(datasets=[WeightedDataset(dataset=ONE)], stop="last"), "stop is 'last'"),  # pyright: ignore
        (lambda: WeightedDataset(dataset=ONE, max_epochs=0), "max_epochs is 0. Give a number above 0"),
        (
            lambda: WeightedDataset(dataset=ONE, weight={5: 1.0}),
            "begins at the items '5' of the mix. Give whole numbers",
        ),
        (lambda: WeightedDataset(dataset=[1]), "The dataset of a WeightedDataset is a list. Give a value whose build"),
        (lambda: DatasetConcatConfig(datasets=[WeightedDataset(dataset=ONE)]), "A child .* is a WeightedDataset"),  # pyright: ignore
        (lambda: ConcatThenSplitPackingConfig(dataset=ONE, last_row="pda"), "last_row is 'pda'.*Did you mean 'pad'"),  # pyright: ignore
        (lambda: FirstFitPackingConfig(dataset=ONE, overflow="chop"), "overflow is 'chop'. It is one of"),  # pyright: ignore
        (
            lambda: FirstFitPackingConfig(dataset=ONE, strategy="nextfit"),
            "strategy is 'nextfit'.*Did you mean 'next_fit'",
        ),
        (lambda: MMSamplePackingConfig(dataset=ONE, max_images_per_row=0), "max_images_per_row is 0. Give a whole"),
    ],
)
def test_what_can_not_be_is_refused_when_it_is_written(make: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        make()


def test_two_children_of_one_name_are_refused(grain_of: Any) -> None:
    child = WeightedDataset(dataset=ONE, name="math")
    with pytest.raises(ConfigError, match="Several are called 'math'. Give each a name of its own"):
        grain_of(DatasetMixConfig(datasets=(child, child)))


def test_a_node_is_a_value_that_is_changed_by_making_another() -> None:
    changed = dataclasses.replace(FirstFitPackingConfig(dataset=ONE), num_packing_bins=16)
    assert (changed.num_packing_bins, changed.dataset) == (16, ONE)
    with pytest.raises(dataclasses.FrozenInstanceError):
        changed.num_packing_bins = 3  # pyright: ignore[reportAttributeAccessIssue]
