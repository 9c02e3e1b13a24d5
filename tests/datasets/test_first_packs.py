"""The first packs, made without reading what comes after them."""

import pickle
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.datasets import PackedDataset
from torchpipe.datasets.first_packs import first_packs


class Rows:
    """Rows of given lengths that count how often they are read."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths = lengths
        self.num_read = 0

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        self.num_read += 1
        ids = [100 * index + place for place in range(self.lengths[index])]
        return {"tokens": ids, "labels": [*ids[1:], -100]}


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


@given(
    lengths=st.lists(st.integers(1, 8), min_size=1, max_size=20),
    split=st.booleans(),
    num_packs=st.integers(1, 6),
    max_packs=st.none() | st.integers(1, 4),
)
def test_they_are_those_of_the_whole_data_set(
    lengths: list[int], split: bool, num_packs: int, max_packs: int | None
) -> None:
    settings: dict[str, Any] = {"max_seq_len": 8, "split_across_pack": split, "max_packs": max_packs}
    whole = PackedDataset(Rows(lengths), **settings)
    with first_packs(num_packs) as asked:
        some = PackedDataset(Rows(lengths), **settings)
    assert len(some) == min(num_packs, len(whole))
    assert all(equal(some[index], whole[index]) for index in range(len(some)))
    if len(some) < len(whole):
        assert asked.unfinished == [some]
    assert [whole.spans(index) for index in range(len(some))] == [some.spans(index) for index in range(len(some))]


def test_only_the_rows_they_need_are_read() -> None:
    rows = Rows([4] * 1000)
    with first_packs(2):
        PackedDataset(rows, max_seq_len=8)
    assert rows.num_read == 5  # two in each pack, and the one that closes the second


def test_a_data_set_that_is_read_to_its_end_is_finished() -> None:
    with first_packs(2) as asked:
        PackedDataset(Rows([8, 8]), max_seq_len=8)
    assert asked.unfinished == []


def test_outside_nothing_is_shortened() -> None:
    with pytest.raises(ZeroDivisionError), first_packs(1):
        raise ZeroDivisionError
    assert len(PackedDataset(Rows([8, 8, 8]), max_seq_len=8)) == 3


def test_the_samples_are_kept_for_a_look_but_not_in_a_copy() -> None:
    rows = Rows([3, 3])
    packed = PackedDataset(rows, max_seq_len=8)
    assert packed.samples is rows
    copy = pickle.loads(pickle.dumps(packed))
    assert copy.samples is None
    assert equal(copy[0], packed[0])
    assert PackedDataset([rows[0], rows[1]], max_seq_len=8).samples is None


def test_spans_tell_which_tokens_of_which_samples_a_pack_holds() -> None:
    packed = PackedDataset(Rows([5, 6]), max_seq_len=8, split_across_pack=True)
    assert packed.spans(0) == [(0, 0, 5), (1, 0, 3)]
    assert packed.spans(-1) == [(1, 3, 6)]
    with pytest.raises(IndexError, match="Pack 2 was asked for, and there are 2 packs"):
        packed.spans(2)
