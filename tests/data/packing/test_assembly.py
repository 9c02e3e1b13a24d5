from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

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
