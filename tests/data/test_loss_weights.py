from typing import Any

import pytest

from torchpipe.data import Message
from torchpipe.data.loss_weights import are_weighted, loss_weights, token_weights, weights_or_ones
from torchpipe.data.sample_transforms import SFTTransform
from torchpipe.errors import DataError


def sample_of(weights: list[float] | None, mask: list[bool]) -> dict[str, Any]:
    def tokenize(row: Any) -> dict[str, Any]:
        tokens = list(range(10, 10 + len(mask)))
        given = {} if weights is None else {"token_weights": weights}
        return {"tokens": tokens, "mask": mask, **given}

    return SFTTransform(None, tokenize)({})


def test_only_weights_that_a_mask_cannot_say_make_a_row_weighted():
    assert not are_weighted([Message("user", "u"), Message("assistant", "a", weight=1), Message("tool", "", weight=0)])
    assert are_weighted([Message("user", "u"), Message("assistant", "a", weight=0.5)])
    assert not are_weighted([Message("user", "u", weight=0.5, masked=True)])


def test_a_label_has_the_weight_of_the_token_that_it_names():
    sample = sample_of([1, 1, 0.5, 0.25], [True, True, False, False])
    assert sample["labels"] == [-100, 12, 13, -100]
    assert sample["loss_weights"] == [0, 0.5, 0.25, 0]
    assert "token_weights" not in sample


def test_weights_of_zero_and_one_are_labels_and_nothing_more():
    sample = sample_of([1, 1, 0, 1], [True, False, False, False])
    assert sample["labels"] == [11, -100, 13, -100]
    assert sample["mask"] == [True, False, True, False]
    assert "loss_weights" not in sample
    assert "loss_weights" not in sample_of(None, [True, False])


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ([1.0], "has 1 token weights and 2 mask values"),
        ([1, -1], "is -1"),
        ([1, float("nan")], "is nan"),
        ([1, "a"], "'a'"),
    ],
)
def test_what_are_no_weights_is_refused(weights: Any, sentence: str):
    with pytest.raises(DataError, match=sentence):
        loss_weights([True, False], weights)


def test_edges():
    assert loss_weights([], []) == []
    assert loss_weights([False], [2.0]) == [0.0]
    assert token_weights([Message("assistant", "a", weight=3)], [-1, 0]) == [1.0, 3.0]
    assert weights_or_ones([-100, 4], None) == [0.0, 1.0]
