"""Mixes as a config writes them: lists with weights, names to sections, and packs of either."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from torchpipe import config
from torchpipe.datasets import (
    ConcatDataset,
    MixDataset,
    PackedDataset,
    StoredDataset,
    describe_mix,
    describe_packing,
    instantiate_dataset,
    instantiate_held_out,
)
from torchpipe.errors import ConfigError
from torchpipe.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer(max_seq_len=512)

SECTION = """
      _component_: torchpipe.datasets.instruct_dataset
      source: json
      data_files: ${data_file}
      column_map: {input: question, output: answer}
      cache: true
"""


@pytest.fixture
def built(shared_data: Path):
    """Function (YAML) -> the data set of its ``dataset`` section, after the whole config was checked."""

    def build(text: str, build: Any = instantiate_dataset) -> Any:
        cfg: Any = OmegaConf.create(text)
        cfg.data_file = str(shared_data / "gsm8k" / "train.jsonl")
        config.validate(cfg)
        return build(cfg.dataset, TOKENIZER)

    return build


def test_a_list_with_weights_is_a_mix(built: Any):
    mix = built(f"""
dataset:
    - {SECTION.strip()}
      split: train[:40]
      weight: 3
      name: math
    - {SECTION.strip()}
      split: train[40:60]
      weight: 1
      epochs: 1
      name: more
""")
    assert isinstance(mix, MixDataset)
    assert mix.names == ["math", "more"]
    assert [share.items for share in mix.realised()] == [40, 13]
    assert all(isinstance(part, StoredDataset) for part in mix.datasets)


def test_a_list_without_weights_is_still_joined(built: Any):
    both = built(
        f"dataset:\n    - {SECTION.strip()}\n      split: train[:4]\n    - {SECTION.strip()}\n      split: train[4:6]"
    )
    assert isinstance(both, ConcatDataset)
    assert len(both) == 6


def test_sections_under_dataset_leave_all_keys_to_the_section(built: Any):
    mix = built(f"""
dataset:
  - weight: 1
    name: small
    dataset:{SECTION}
      split: train[:9]
""")
    assert isinstance(mix, MixDataset)
    assert (mix.names, len(mix)) == (["small"], 9)


def test_names_to_sections_with_all_options_and_packs_of_the_mix(built: Any):
    packed = built(f"""
dataset:
  _component_: torchpipe.datasets.PackedDataset
  strategy: best_fit_decreasing
  ds:
    _component_: torchpipe.datasets.MixDataset
    by: tokens
    stop: all
    weights: {{math: 2, more: 1}}
    datasets:
      math:{SECTION.replace(chr(10), chr(10) + "  ")}
        split: train[:40]
      more:{SECTION.replace(chr(10), chr(10) + "  ")}
        split: train[40:100]
""")
    assert isinstance(packed, PackedDataset)
    assert packed.max_seq_len == TOKENIZER.max_seq_len
    assert packed.padding_idx == TOKENIZER.pad_id
    assert "2 data sets by tokens: math 66." in describe_mix(packed)
    assert "packs" in describe_packing(packed)
    assert packed.counts.rows == len(packed.samples) > 100


def test_a_name_is_a_hash_of_its_section_where_none_is_given(built: Any):
    def names(splits: list[str]) -> list[str]:
        entries = "".join(f"    - {SECTION.strip()}\n      split: {split}\n      weight: 1\n" for split in splits)
        return built(f"dataset:\n{entries}").names

    both = names(["train[:4]", "train[4:8]"])
    assert all(name.startswith("instruct_dataset-") for name in both)
    assert names(["train[8:9]", "train[4:8]", "train[:4]"])[1:] == both[::-1]
    assert names(["train[:4]", "train[:4]"]) == [both[0], f"{both[0]} (2)"]


def test_held_out_rows_by_name(built: Any):
    parts = built(
        f"dataset:\n  math:{SECTION.replace(chr(10) + '  ', chr(10))}    split: train[:3]\n"
        f"  more:{SECTION.replace(chr(10) + '  ', chr(10))}    split: train[3:5]\n",
        build=instantiate_held_out,
    )
    assert {name: len(rows) for name, rows in parts.items()} == {"math": 3, "more": 2}
    section = {
        "_component_": "torchpipe.datasets.PackedDataset",
        "ds": [{"tokens": [1], "labels": [2]}],
        "max_seq_len": 2,
    }
    assert list(instantiate_held_out(section, TOKENIZER)) == ["held-out"]
    named = [{"name": "a", "dataset": section}, {"name": "b", "dataset": section}]
    assert list(instantiate_held_out(named, TOKENIZER)) == ["a", "b"]
    assert instantiate_held_out(None, TOKENIZER) == {}
    with pytest.raises(ConfigError, match="Held-out rows are all looked at once: weight and epochs have no effect"):
        instantiate_held_out([{**named[0], "weight": 1}], TOKENIZER)


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        (
            [{"_component_": "a.b", "weight": 1}, {"_component_": "a.b"}],
            "Number 1 of the list of data sets has no weight, and others have one",
        ),
        (
            [{"dataset": {"_component_": "a.b"}, "wieght": 1}],
            "Number 0 of the list of data sets has 'wieght' beside dataset. .* Did you mean 'weight'",
        ),
        (
            [{"_component_": "a.b", "weight": 1}, {"source": "json", "weight": 1}],
            "Number 1 of the list of data sets is a dict without a _component_",
        ),
        (
            [{"_component_": "torchpipe.datasets.chat_dataset", "source": "wikitext", "name": "raw", "weight": 1}],
            "has name: raw, which may be the name in the mix, or a configuration for load_dataset",
        ),
        (
            [
                {"dataset": {"_component_": "a.b"}, "weight": 1, "name": "x"},
                {"dataset": {"_component_": "a.c"}, "weight": 1, "name": "x"},
            ],
            "Several are called 'x'. Give each a name of its own",
        ),
        (
            [{"_component_": "a.b", "weight": 1, "by": "tokens"}],
            "Number 0 of the list of data sets has 'by', which is said once of the whole mix. .*MixDataset, .*by: ",
        ),
    ],
)
def test_entries_that_can_not_be_understood_are_named(entries: list[Any], sentence: str):
    with pytest.raises(ConfigError, match=sentence):
        instantiate_dataset(entries, TOKENIZER)


def test_a_section_inside_a_mix_is_checked_with_the_config():
    section = {"_component_": "torchpipe.datasets.SFTDataset", "source": "json", "mesage_transform": None}
    cfg = {"dataset": {"_component_": "torchpipe.datasets.MixDataset", "datasets": {"a": section}, "wieghts": [1]}}
    with pytest.raises(ConfigError, match="takes no argument 'wieghts'. Did you mean 'weights'"):
        config.validate(cfg)
