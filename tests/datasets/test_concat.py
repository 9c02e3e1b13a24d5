"""ConcatDataset: every index of every part, and what does not go together."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from torch.utils.data import DataLoader

from torchpipe.data import padded_collate_packed, padded_collate_sft
from torchpipe.datasets import (
    ConcatDataset,
    PackedDataset,
    chat_dataset,
    count_samples,
    instantiate_dataset,
    instruct_dataset,
)
from torchpipe.errors import ConfigError, DataError, InstantiationError
from torchpipe.loading import GlobalSteps
from torchpipe.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()


class Numbers:
    """Samples of one token each, from ``start`` on, that count how often they are read."""

    def __init__(self, start: int, length: int) -> None:
        self.start, self.length, self.reads = start, length, 0

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Any]:
        assert 0 <= index < self.length
        self.reads += 1
        return {"tokens": [self.start + index], "labels": [self.start + index]}


def numbers(dataset: Any) -> list[int]:
    return [sample["tokens"][0] for sample in dataset]


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.data())
def test_every_index_gives_what_the_joined_list_gives(lengths: list[int], data: st.DataObject):
    parts = [Numbers(100 * place, length) for place, length in enumerate(lengths)]
    expected = [100 * place + row for place, length in enumerate(lengths) for row in range(length)]
    both = ConcatDataset(parts)
    assert len(both) == len(expected)
    assert numbers(both) == expected
    index = data.draw(st.integers(-len(expected) - 3, len(expected) + 2))
    if -len(expected) <= index < len(expected):
        assert both[index]["tokens"] == [expected[index]]
    else:
        with pytest.raises(IndexError, match=f"Row {index} was asked for, and the {len(parts)} data sets .* have"):
            both[index]


def test_an_index_reads_one_sample_of_one_part():
    parts = [Numbers(0, 3), Numbers(10, 3), Numbers(20, 3)]
    assert ConcatDataset(parts)[4]["tokens"] == [11]
    assert [part.reads for part in parts] == [0, 1, 0]


@pytest.mark.parametrize("index", [1.0, "1", None, slice(0, 2), [0], float("nan"), np.float64(1)])
def test_what_is_no_row_number_is_refused(index: Any):
    packed = PackedDataset(Numbers(0, 9), max_seq_len=3)
    for dataset in (ConcatDataset([Numbers(0, 5)]), packed, ConcatDataset([packed])):
        with pytest.raises(TypeError, match="A row is asked for by its number, and .* one by one"):
            dataset[index]


@pytest.mark.parametrize("number", [np.int64, np.uint8, torch.tensor, bool])
def test_any_integer_is_a_row_number(number: Any):
    assert ConcatDataset([Numbers(0, 1), Numbers(10, 1)])[number(1)]["tokens"] == [10]


def test_an_index_beyond_the_end_names_the_parts_and_their_sizes():
    with pytest.raises(IndexError, match=r"Row 5 .* 2 data sets Numbers \+ Numbers have 5 rows \(2 \+ 3"):
        ConcatDataset([Numbers(0, 2), Numbers(0, 3)])[5]


def test_packing_the_joined_and_joining_the_packed_hold_the_same_tokens():
    parts = [Numbers(0, 5), Numbers(10, 4)]
    joined = PackedDataset(ConcatDataset(parts), max_seq_len=3)
    assert joined.counts.rows == 9
    packs = ConcatDataset([PackedDataset(part, max_seq_len=3, padding_idx=99) for part in parts])
    for packed, expected in ((joined, [*range(5), *range(10, 14)]), (packs, [*range(5), 99, *range(10, 14), 99, 99])):
        assert [token for pack in packed for token in pack["tokens"].tolist()] == expected
    batch = padded_collate_packed([packs[0], packs[-1]])
    assert batch["tokens"].tolist() == [[0, 1, 2], [13, 99, 99]]


def test_packed_says_whether_the_rows_are_packs():
    plain, packed = Numbers(0, 2), PackedDataset(Numbers(0, 2), max_seq_len=2)
    assert ConcatDataset([plain, plain]).packed is False
    assert ConcatDataset([packed]).packed is True
    assert ConcatDataset([ConcatDataset([packed]), packed]).packed is True


def test_packed_and_unpacked_do_not_mix():
    packed = PackedDataset(Numbers(0, 2), max_seq_len=2)
    for other in (Numbers(0, 2), ConcatDataset([Numbers(0, 2)])):
        with pytest.raises(ValueError, match=r"0 \(Numbers\) is packed; 1 \(\w+\) is not packed"):
            ConcatDataset([packed, other])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([], "ConcatDataset was given an empty list"),
        (Numbers(0, 2), "takes a list of data sets, and got a Numbers"),
        ("ab", "takes a list of data sets, and got a str"),
        ([Numbers(0, 2), iter([])], "number 1 is a list_iterator"),
    ],
)
def test_what_is_no_list_of_data_sets_is_refused(given: Any, sentence: str):
    with pytest.raises(ConfigError, match=sentence):
        ConcatDataset(given)


def test_counts_of_packed_parts_are_added_and_others_are_read():
    one = instruct_dataset(TOKENIZER, source=[{"input": "a", "output": "b"}] * 3)
    two = instruct_dataset(TOKENIZER, source=[{"input": "a", "output": "c" * 30}] * 2, filter_fn=lambda row: True)
    plain = count_samples(ConcatDataset([one, two]))
    packed = count_samples(ConcatDataset([PackedDataset(part, max_seq_len=64) for part in (one, two)]))
    assert replace(plain, digest="") == replace(packed, digest="")
    assert packed.digest
    assert (plain.rows, plain.longest) == (5, count_samples(two).longest)


def test_rows_that_filters_left_out_are_added():
    rows = [{"input": "a", "output": "b"}, {"input": "c", "output": "d"}]
    some = instruct_dataset(TOKENIZER, source=rows, filter_fn=lambda row: row["input"] == "a")
    assert ConcatDataset([some, some]).num_filtered == 2


def test_an_error_in_a_row_names_the_part_it_is_in(tmp_path: Path):
    good = chat_dataset(
        TOKENIZER,
        source=[{"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]}],
        conversation_column="messages",
        conversation_style="openai",
    )
    (tmp_path / "bad.jsonl").write_text('{"input": "a", "output": null}\n{"input": "a", "output": "b"}\n')
    bad = instruct_dataset(TOKENIZER, source="json", data_files=str(tmp_path / "bad.jsonl"))
    both = ConcatDataset([good, bad])
    with pytest.raises(DataError, match=r"Row 0 of .*bad\.jsonl: Column 'output' is null"):
        both[1]
    assert both.name.endswith("bad.jsonl")


def test_a_data_loader_reads_it_in_workers():
    loader = DataLoader(
        ConcatDataset([Numbers(0, 3), Numbers(10, 2)]), batch_size=2, num_workers=1, collate_fn=padded_collate_sft
    )
    assert [batch["tokens"].flatten().tolist() for batch in loader] == [[0, 1], [2, 10], [11]]


# --- from a config -------------------------------------------------------------------------------------------------


def section(**more: Any) -> dict[str, Any]:
    rows = [{"input": "a", "output": "b"}]
    return {"_component_": "torchpipe.datasets.instruct_dataset", "source": rows, **more}


def test_a_list_of_sections_is_one_data_set():
    for cfg in ([section(), section()], OmegaConf.create([section(), section()])):
        dataset = instantiate_dataset(cfg, TOKENIZER)
        assert isinstance(dataset, ConcatDataset)
        assert len(dataset) == 2
        assert dataset[0] == dataset[1]
    assert isinstance(instantiate_dataset([section()], TOKENIZER), ConcatDataset)


def test_a_bare_name_in_a_list_is_found_where_it_is_called():
    cfg = [{"_component_": "ten_more", "start": 5}]
    assert numbers(instantiate_dataset(cfg, TOKENIZER)) == list(range(5, 15))


def ten_more(tokenizer: Any, *, start: int) -> Numbers:
    return Numbers(start, 10)


def test_what_is_wrong_in_a_list_is_named_with_its_place():
    cfg = OmegaConf.create({"dataset": [section(), section(packd=3)]})
    with pytest.raises(ConfigError, match="packd") as raised:
        instantiate_dataset(cfg.dataset, TOKENIZER)
    assert any("dataset[1]" in note for note in getattr(raised.value, "__notes__", []))
    cfg = OmegaConf.create({"dataset": [section(), {"_component_": "torchpipe.datasets.instruct_datset"}]})
    with pytest.raises(InstantiationError, match="Did you mean 'instruct_dataset'"):
        instantiate_dataset(cfg.dataset, TOKENIZER)
    with pytest.raises(ConfigError, match="list of dataset sections is empty"):
        instantiate_dataset([], TOKENIZER)


class TestWhatPartsKnow:
    def test_of_packs_it_is_joined_and_balances_the_ranks(self, tmp_path: Path) -> None:
        one, two = (PackedDataset(Numbers(start, 40), max_seq_len=size) for start, size in ((0, 7), (100, 7)))
        both = ConcatDataset([one, two])
        assert both.costs.tolist() == [*one.costs.tolist(), *two.costs.tolist()]
        assert both.trained_counts.tolist() == [*one.trained_counts.tolist(), *two.trained_counts.tolist()]
        assert both.weight_sums is None
        steps = GlobalSteps.of(both, global_batch_size=4)
        assert steps.costs is not None
        assert steps.costs.tolist() == both.costs.tolist()
        assert pickle.loads(pickle.dumps(both)).costs.tolist() == both.costs.tolist()

    def test_weights_of_some_parts_are_joined_with_the_trained_counts_of_the_others(self) -> None:
        plain = [{"tokens": [1, 2, 3], "labels": [2, 3, -100]}]
        weighted = [{**plain[0], "loss_weights": [0.25, 0.5, 0.0]}]
        both = ConcatDataset([PackedDataset(rows, max_seq_len=4) for rows in (plain, weighted)])
        assert both.weight_sums is not None
        assert both.weight_sums.tolist() == [2.0, 0.75]

    def test_of_rows_that_are_not_read_yet_nothing_is_known(self) -> None:
        both = ConcatDataset([Numbers(0, 3), Numbers(3, 4)])
        for name in ("costs", "lengths", "trained_counts", "weight_sums"):
            assert not hasattr(both, name)
        assert GlobalSteps.of(both, global_batch_size=2).costs is None


def test_counting_shows_each_sample_that_is_read() -> None:
    seen: list[int] = []
    assert count_samples(Numbers(5, 3), each=lambda sample: seen.append(sample["tokens"][0])).rows == 3
    assert seen == [5, 6, 7]
