"""PackedDataset: torchtune's packs in torchtune's order, any sized object as input."""

import pickle
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.data import padded_collate_packed
from torchpipe.datasets import PackedDataset
from torchpipe.errors import ConfigError, DataError


class Samples:
    """Samples of given lengths: tokens 100 * i + j, labels one higher; the last label of each is -100."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths = lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> dict[str, Any]:
        tokens = [100 * index + j for j in range(self.lengths[index])]
        return {"tokens": tokens, "labels": [*tokens[1:], -100] if tokens else [], "mask": [False] * len(tokens)}


def as_lists(pack: dict[str, torch.Tensor]) -> dict[str, list[int]]:
    return {key: value.tolist() for key, value in pack.items()}


def test_lengths_3_and_2_at_capacity_6_give_the_literal_pack_and_mask() -> None:
    packed = PackedDataset(Samples([3, 2]), max_seq_len=6, padding_idx=9)
    assert len(packed) == 1
    assert as_lists(packed[0]) == {
        "tokens": [0, 1, 2, 100, 101, 9],
        "labels": [1, 2, -100, 101, -100, -100],
        "input_pos": [0, 1, 2, 0, 1, 2],
        "seq_lens": [3, 2, 1],
    }
    batch: Any = padded_collate_packed([packed[0]])
    assert set(batch) == {"tokens", "labels", "input_pos", "mask"}
    assert batch["mask"].dtype == torch.bool
    assert batch["mask"][0].int().tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [0, 0, 0, 1, 0, 0],
        [0, 0, 0, 1, 1, 0],
        [0, 0, 0, 0, 0, 1],
    ]


def test_a_split_samples_positions_run_on_and_padding_is_clamped() -> None:
    packed = PackedDataset(Samples([3, 5]), max_seq_len=6, split_across_pack=True)
    assert as_lists(packed[0])["input_pos"] == [0, 1, 2, 0, 1, 2]
    assert as_lists(packed[1]) == {
        "tokens": [103, 104, 0, 0, 0, 0],
        "labels": [104, -100, -100, -100, -100, -100],
        "input_pos": [3, 4, 5, 5, 5, 5],
        "seq_lens": [2, 4],
    }


def test_positions_of_a_very_long_sample_wrap_at_the_pack_length() -> None:
    packed = PackedDataset(Samples([14, 3]), max_seq_len=6, split_across_pack=True)
    assert [as_lists(pack)["input_pos"] for pack in (packed[1], packed[2])] == [[0, 1, 2, 3, 4, 5], [0, 1, 0, 1, 2, 3]]


def test_an_exact_fit_has_no_padding_entry() -> None:
    assert as_lists(PackedDataset(Samples([6]), max_seq_len=6)[0])["seq_lens"] == [6]


@given(st.lists(st.integers(0, 9), max_size=20).filter(any), st.booleans())
def test_packing_and_unpacking_is_the_identity(lengths: list[int], split: bool) -> None:
    packed = PackedDataset(Samples(lengths), max_seq_len=9, split_across_pack=split, padding_idx=-1)
    tokens, labels = [], []
    for index in range(len(packed)):
        pack = as_lists(packed[index])
        assert sum(pack["seq_lens"]) == 9
        used = [i for i, token in enumerate(pack["tokens"]) if token != -1]
        tokens += [pack["tokens"][i] for i in used]
        labels += [pack["labels"][i] for i in used]
    samples = [Samples(lengths)[i] for i in range(len(lengths))]
    assert tokens == [token for sample in samples for token in sample["tokens"]]
    assert labels == [label for sample in samples for label in sample["labels"]]


def test_max_packs_stops_and_counts_what_is_left_out() -> None:
    packed = PackedDataset(Samples([4, 4, 4]), max_seq_len=6, max_packs=1)
    assert len(packed) == 1
    assert packed.counts.dropped_rows == 2
    assert len(PackedDataset(Samples([4]), max_seq_len=6, max_packs=0)) == 0


def test_indexing_is_a_sequences() -> None:
    packed = PackedDataset(Samples([4, 4]), max_seq_len=6)
    assert torch.equal(packed[-1]["tokens"], packed[1]["tokens"])
    with pytest.raises(IndexError, match="Pack 2 was asked for, and there are 2"):
        packed[2]
    assert len(list(packed)) == 2  # pyright: ignore[reportArgumentType]


def test_counts_are_those_of_the_samples() -> None:
    counts = PackedDataset(Samples([3, 2]), max_seq_len=6).counts
    assert (counts.rows, counts.tokens, counts.trained_tokens, counts.longest) == (2, 5, 3, 3)


def test_a_data_set_is_not_asked_for_a_ledger_that_reads_all_of_its_rows() -> None:
    class Unread(Samples):
        name = "rows"

        @property
        def ledger(self) -> Any:
            raise AssertionError("It was asked for its ledger.")

    assert PackedDataset(Unread([3, 2]), max_seq_len=6).counts.rows == 2


def test_tensors_are_packed_like_lists() -> None:
    rows = [{"tokens": torch.tensor([1, 2]), "labels": torch.tensor([2, -100])}]
    assert as_lists(PackedDataset(rows, max_seq_len=3)[0])["tokens"] == [1, 2, 0]


def test_it_travels_to_worker_processes() -> None:
    packed = PackedDataset(Samples([3, 2]), max_seq_len=6)
    assert as_lists(pickle.loads(pickle.dumps(packed))[0]) == as_lists(packed[0])


def test_a_sample_that_is_too_long_is_refused_unless_split() -> None:
    with pytest.raises(DataError, match="Samples: Sample 1: 7 tokens do not fit a pack of 6"):
        PackedDataset(Samples([3, 7]), max_seq_len=6)
    assert len(PackedDataset(Samples([3, 7]), max_seq_len=6, split_across_pack=True)) == 2


def test_unequal_tokens_and_labels_are_refused() -> None:
    with pytest.raises(DataError, match="Row 0 of list: A sample has 2 tokens and 1 labels"):
        PackedDataset([{"tokens": [1, 2], "labels": [2]}], max_seq_len=3)


def test_what_has_no_length_is_refused() -> None:
    with pytest.raises(ConfigError, match="__len__ and __getitem__, and got a generator"):
        PackedDataset((x for x in []), max_seq_len=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="__len__ and __getitem__, and got a dict"):
        PackedDataset({"tokens": [1]}, max_seq_len=4)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match=r"max_packs is 1\.5"):
        PackedDataset([{"tokens": [1], "labels": [1]}], max_seq_len=4, max_packs=1.5)  # pyright: ignore
    with pytest.raises(ConfigError, match="max_packs is -1"):
        PackedDataset([], max_seq_len=3, max_packs=-1)


class Weighted(Samples):
    """Every other sample has loss weights."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        sample = super().__getitem__(index)
        weights = [0.5 if label != -100 else 0.0 for label in sample["labels"]]
        return sample if index % 2 == 0 else {**sample, "loss_weights": weights}


@pytest.mark.parametrize("split", [False, True])
def test_loss_weights_survive_packing_and_samples_without_weigh_one(split: bool) -> None:
    packed = PackedDataset(Weighted([3, 4, 2]), max_seq_len=5, split_across_pack=split)
    weights = torch.cat([packed[pack]["loss_weights"] for pack in range(len(packed))])
    labels = torch.cat([packed[pack]["labels"] for pack in range(len(packed))])
    tokens = torch.cat([packed[pack]["tokens"] for pack in range(len(packed))])
    expected = torch.where((tokens >= 100) & (tokens < 200), 0.5, 1.0)
    assert torch.equal(weights, torch.where(labels == -100, 0.0, expected))
    assert weights.dtype == torch.float32
    again = pickle.loads(pickle.dumps(packed))
    assert torch.equal(again[0]["loss_weights"], packed[0]["loss_weights"])


def test_samples_without_weights_make_packs_without_and_other_digests() -> None:
    plain, weighted = PackedDataset(Samples([3, 4]), max_seq_len=7), PackedDataset(Weighted([3, 4]), max_seq_len=7)
    assert "loss_weights" not in plain[0]
    assert plain.counts.digest != weighted.counts.digest
    batch: Any = padded_collate_packed([plain[0], weighted[0]])
    assert batch["loss_weights"].tolist() == [
        [float(label != -100) for label in plain[0]["labels"].tolist()],
        weighted[0]["loss_weights"].tolist(),
    ]


def test_more_weights_than_labels_are_refused() -> None:
    sample = {"tokens": [1, 2], "labels": [2, -100], "loss_weights": [1.0]}
    with pytest.raises(DataError, match="Row 0 of list: A sample has 2 tokens and 1 loss_weights"):
        PackedDataset([sample], max_seq_len=4)
