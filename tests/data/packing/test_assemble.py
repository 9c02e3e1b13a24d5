from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.data.packing import Span, assemble, plan_packs
from torchpipe.errors import DataError


def test_weights_of_spans_stand_beside_their_labels_and_padding_weighs_nothing():
    read = {0: ([5, 6], [6, -100], [0.5, 0.0]), 1: ([7], [8], [0.25])}

    def of(span: Span) -> list[np.ndarray]:
        return [np.array(values)[span.start : span.stop] for values in read[span.sample]]

    pack = assemble([Span(0, 0, 2), Span(1, 0, 1)], of, capacity=5, padding_idx=9)
    assert pack["loss_weights"].dtype == torch.float32
    assert pack["loss_weights"].tolist() == [0.5, 0, 0.25, 0, 0]
    without = assemble([Span(0, 0, 2)], lambda span: of(span)[:2], capacity=5, padding_idx=9)
    assert "loss_weights" not in without


def test_more_tokens_than_a_pack_holds_are_refused():
    with pytest.raises(DataError, match="A pack of 2 tokens was given spans of 3 tokens"):
        assemble([Span(0, 0, 3)], lambda span: [], capacity=2, padding_idx=0)


@given(st.data())
def test_packing_and_unpacking_is_the_identity(data: st.DataObject):
    lengths = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=8))
    strategy: Any = data.draw(st.sampled_from(["next_fit", "concat_then_split"]))
    numbers = np.random.default_rng(data.draw(st.integers(0, 99)))
    samples = [
        (numbers.integers(0, 50, n), numbers.choice([-100, 3, 4], n), numbers.random(n).astype(np.float32))
        for n in lengths
    ]
    plan = plan_packs(lengths, 7, strategy=strategy)
    back: list[list[list[float]]] = [[[], [], []] for _ in lengths]
    for number in range(len(plan)):
        pack = assemble(
            plan.spans(number),
            lambda span: [values[span.start : span.stop] for values in samples[span.sample]],
            capacity=7,
            padding_idx=0,
        )
        at = 0
        for span, size in zip(plan.spans(number), pack["seq_lens"].tolist(), strict=False):
            for values, key in zip(back[span.sample], ("tokens", "labels", "loss_weights"), strict=True):
                values += pack[key][at : at + size].tolist()
            at += size
        assert not pack["loss_weights"][at:].any()
    assert back == [[values.tolist() for values in sample] for sample in samples]
