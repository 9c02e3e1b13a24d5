"""Who needs samples refuses what is none, and says what the items are and what they are for."""

from typing import Any

import pytest

from torchpipe.datasets import (
    ConcatDataset,
    MixDataset,
    instantiate_dataset,
    refuse_datasets_without_samples,
    refuse_other_than_samples,
)
from torchpipe.errors import ConfigError
from torchpipe.models.tiny import tiny_tokenizer


def nothing_at_all(tokenizer: Any) -> object:
    """A component that builds no data set."""
    return object()


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ({"chosen_input_ids": [1], "rejected_input_ids": [1]}, "are pairs: `torchpipe run dpo` trains on them"),
        ({"input_ids": [1], "labels": [1], "desirable": True}, "are answers with a label: .*padded_collate_kto"),
        ({"tokens": [1], "columns": {}}, "are prompts: they have nothing to train on"),
        ({"text": "a"}, "are dicts with the keys 'text'"),
        (3, "are of the type int"),
    ],
)
def test_items_that_are_no_samples_are_refused_by_their_kind(item: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=f"^Recipe sft trains on samples of .* and the items of a list {told}"):
        refuse_other_than_samples(item, [item], "Recipe sft trains on")


def test_samples_and_packs_pass() -> None:
    refuse_other_than_samples({"tokens": [1], "labels": [1]}, [], "Recipe sft trains on")
    refuse_other_than_samples({"tokens": [1], "labels": [1], "seq_lens": [1]}, [], "Recipe sft trains on")


@pytest.mark.parametrize("joined", [ConcatDataset, lambda parts: MixDataset(dict(zip("ab", parts, strict=True)))])
def test_each_part_of_joined_data_sets_is_looked_at(joined: Any) -> None:
    samples: Any = [{"tokens": [1], "labels": [1]}] * 3
    pairs: Any = [{"chosen_input_ids": [1], "chosen_labels": [1], "rejected_input_ids": [1], "rejected_labels": [1]}]
    refuse_datasets_without_samples(joined([samples, samples]), "Recipe sft trains on")
    with pytest.raises(ConfigError, match="Recipe sft trains on samples of .* the items of a list are pairs"):
        refuse_datasets_without_samples(joined([samples, pairs]), "Recipe sft trains on")


def test_a_component_that_gives_no_data_set_is_refused_where_it_is_built(tmp_path: Any) -> None:
    file = tmp_path / "dataset_info.json"
    file.write_text('{"mine": {"file_name": "mine.json"}}')
    section = {"_component_": "torchpipe.datasets.dataset_info", "path": str(file), "name": "mine"}
    with pytest.raises(
        ConfigError, match=r"of the type dict, .* a section, .* torchpipe\.datasets\.dataset_info_dataset"
    ):
        instantiate_dataset(section, tiny_tokenizer())
    with pytest.raises(
        ConfigError, match=r"nothing_at_all gives an object of the type object, and a data set has `len`"
    ):
        instantiate_dataset({"_component_": f"{__name__}.nothing_at_all"}, tiny_tokenizer())
