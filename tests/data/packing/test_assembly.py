import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.data.collate import padded_collate_packed
from torchpipe.data.packing import PackPlan, Span, assemble, padding_pack, plan_packs
from torchpipe.errors import DataError


class Samples:
    """Samples as lists of tokens, labels and, where they have them, weights."""

    def __init__(self, *samples: Any) -> None:
        self.samples = samples
        self.has_weights = len(samples[0]) == 3

    def gather(self, sample, start, stop, *, tokens, labels, loss_weights=None) -> None:
        for place, into in enumerate((tokens, labels) if loss_weights is None else (tokens, labels, loss_weights)):
            into[:] = [
                value
                for number, first, last in zip(sample, start, stop, strict=True)
                for value in self.samples[number][place][first:last]
            ]


def test_weights_of_spans_stand_beside_their_labels_and_padding_weighs_nothing():
    samples = Samples(([5, 6], [6, -100], [0.5, 0.0]), ([7], [8], [0.25]))
    plan = PackPlan.from_packs([[Span(0, 0, 2), Span(1, 0, 1)]])
    (pack,) = assemble(plan, [0], samples, capacity=5, padding_idx=9)
    assert pack["tokens"].tolist() == [5, 6, 7, 9, 9]
    assert pack["loss_weights"].dtype == torch.float32
    assert pack["loss_weights"].tolist() == [0.5, 0, 0.25, 0, 0]
    (without,) = assemble(plan, [0], Samples(([5, 6], [6, -100]), ([7], [8])), capacity=5, padding_idx=9)
    assert "loss_weights" not in without


def test_more_tokens_than_a_pack_holds_are_refused():
    plan = PackPlan.from_packs([[Span(0, 0, 3)]])
    with pytest.raises(DataError, match="A pack of 2 tokens was given spans of 3 tokens"):
        assemble(plan, [0], Samples(([1, 2, 3], [1, 2, 3])), capacity=2, padding_idx=0)


@pytest.mark.parametrize("has_weights", [False, True])
def test_a_padding_pack_trains_nothing_and_has_the_keys_of_the_others(has_weights: bool):
    samples = Samples(([5, 6], [6, -100], [0.5, 0.0])) if has_weights else Samples(([5, 6], [6, -100]))
    (pack,) = assemble(PackPlan.from_packs([[Span(0, 0, 2)]]), [0], samples, capacity=4, padding_idx=9)
    padding = padding_pack(4, padding_idx=9, has_weights=has_weights)
    assert {key: value.dtype for key, value in padding.items()} == {key: value.dtype for key, value in pack.items()}
    assert padding["tokens"].tolist() == [9] * 4
    assert padding["labels"].tolist() == [-100] * 4
    assert padding["seq_lens"].tolist() == [4]


@given(st.data())
def test_packing_and_unpacking_is_the_identity(data: st.DataObject):
    lengths = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=8))
    strategy: Any = data.draw(st.sampled_from(["next_fit", "concat_then_split"]))
    numbers = np.random.default_rng(data.draw(st.integers(0, 99)))
    samples = Samples(
        *[
            (numbers.integers(0, 50, n), numbers.choice([-100, 3, 4], n), numbers.random(n).astype(np.float32))
            for n in lengths
        ]
    )
    plan = plan_packs(lengths, 7, strategy=strategy)
    order = data.draw(st.permutations(range(len(plan))))
    packs = dict(zip(order, assemble(plan, order, samples, capacity=7, padding_idx=0), strict=True))
    back: list[list[list[float]]] = [[[], [], []] for _ in lengths]
    for number in range(len(plan)):
        pack, at = packs[number], 0
        assert int(pack["seq_lens"].sum()) == 7
        for span, size in zip(plan.spans(number), pack["seq_lens"].tolist(), strict=False):
            assert pack["input_pos"][at : at + size].tolist() == list(range(span.start, span.stop))
            for values, key in zip(back[span.sample], ("tokens", "labels", "loss_weights"), strict=True):
                values += pack[key][at : at + size].tolist()
            at += size
        assert not pack["loss_weights"][at:].any()
        assert set(pack["labels"][at:].tolist()) <= {-100}
    assert back == [[values.tolist() for values in sample] for sample in samples.samples]


def test_many_packs_are_those_that_are_read_one_by_one():
    numbers = np.random.default_rng(0)
    lengths = numbers.integers(1, 12, 400)
    samples = Samples(*[(numbers.integers(0, 50, n), numbers.choice([-100, 3], n), numbers.random(n)) for n in lengths])
    plan = plan_packs(lengths, 12)
    some: Any = numbers.permutation(len(plan))[:70]
    together = assemble(plan, some, samples, capacity=12, padding_idx=9)
    for pack, read in zip(some, together, strict=True):
        (alone,) = assemble(plan, [pack], samples, capacity=12, padding_idx=9)
        assert all(torch.equal(alone[key], read[key]) for key in alone)
    assert len({pack["tokens"].untyped_storage().nbytes() for pack in together}) == 1, "each holds its row alone"


def three_packs() -> Any:
    samples = Samples(([5, 6], [6, -100], [0.5, 0.0]), ([7, 8, 9], [8, 9, -100], [1.0, 2.0, 0.0]), ([1], [2], [0.25]))
    plan = PackPlan.from_packs([[Span(0, 0, 2)], [Span(1, 0, 3), Span(2, 0, 1)], [Span(2, 0, 1)]])
    return assemble(plan, [1, 0, 2], samples, capacity=4, padding_idx=9)


@pytest.mark.parametrize("mask", ["dense", "ids", "varlen"])
def test_a_batch_of_packs_that_were_read_together_is_that_of_the_packs_alone(mask: Any):
    together: Any = padded_collate_packed(three_packs(), mask)
    alone: Any = padded_collate_packed(list(three_packs()), mask)
    assert together.keys() == alone.keys() == {"tokens", "labels", "input_pos", "mask", "loss_weights"}
    for key in ("tokens", "labels", "input_pos", "loss_weights"):
        assert torch.equal(together[key], alone[key])
        assert together[key].dtype == alone[key].dtype
    if mask == "dense":
        assert torch.equal(together["mask"], alone["mask"])
    else:
        assert together["mask"].lens == alone["mask"].lens == (3, 1, 2, 2, 1, 3)
        assert torch.equal(together["mask"].cu_seqlens, alone["mask"].cu_seqlens)


def test_packs_that_were_read_together_become_a_batch_without_a_copy():
    packs = three_packs()
    stacks, _ = packs.stacked()
    assert padded_collate_packed(packs, "varlen")["tokens"].data_ptr() == stacks["tokens"].data_ptr()


def test_what_is_changed_in_an_item_is_in_its_batch():
    packs = three_packs()
    packs[1]["labels"] = torch.full((4,), -100)
    packs[0]["tokens"][0] = 3
    assert packs.stacked() is None
    batch = padded_collate_packed(packs, "varlen")
    assert batch["labels"][1].tolist() == [-100] * 4
    assert batch["tokens"][0].tolist() == [3, 8, 9, 1]


def test_packs_that_were_read_together_are_a_list_in_another_process():
    packs = pickle.loads(pickle.dumps(three_packs()))
    assert isinstance(packs, list)
    assert [pack["tokens"].tolist() for pack in packs] == [[7, 8, 9, 1], [5, 6, 9, 9], [1, 9, 9, 9]]
    assert packs[0]["tokens"].untyped_storage().nbytes() == 4 * 8


def test_no_packs_are_an_empty_batch():
    samples, plan = Samples(([5, 6], [6, -100])), PackPlan.from_packs([[Span(0, 0, 2)]])
    assert len(assemble(plan, [], samples, capacity=4, padding_idx=9)) == 0
    with pytest.raises(DataError, match="The batch is empty"):
        padded_collate_packed(assemble(plan, [], samples, capacity=4, padding_idx=9))
