"""Samples in flat buffers are those that were added, and their labels follow the one rule."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.data.label_lists import labelled
from torchpipe.errors import ColumnError, DataError
from torchpipe.store.flat_samples import FlatSamples

SAMPLES = st.lists(
    st.lists(st.tuples(st.integers(0, 2**31 - 1), st.booleans()), max_size=6).map(
        lambda pairs: {"tokens": [token for token, _ in pairs], "mask": [masked for _, masked in pairs]}
    ),
    max_size=8,
)


def flat(*samples: Any, vocab_size: int | None = None) -> Any:
    buffers = FlatSamples(name="chats", vocab_size=vocab_size)
    for row, sample in enumerate(samples):
        buffers.add_row(row, [sample])
    return buffers.finished(first_row=0, num_rows=len(samples))


@given(samples=SAMPLES, own=st.lists(st.booleans(), min_size=8, max_size=8), arrays=st.booleans())
def test_labels_are_those_of_each_sample_alone(samples: list[Any], own: list[bool], arrays: bool) -> None:
    wanted = [label for sample in samples for label in labelled(sample)["labels"]]
    given = [labelled(sample) if has else sample for sample, has in zip(samples, own, strict=False)]
    if arrays:
        given = [
            {key: np.array(values, dtype=bool if key == "mask" else np.int64) for key, values in sample.items()}
            for sample in given
        ]
    data = flat(*given)
    assert data.tokens.tolist() == [token for sample in samples for token in sample["tokens"]]
    if data.labels is not None:
        assert data.labels.tolist() == wanted
    else:
        following = [*data.tokens[1:].tolist(), 0][: len(data.tokens)]
        found = [token if trained else -100 for token, trained in zip(following, data.trained, strict=True)]
        assert found == wanted


def test_weights_stand_beside_those_that_labels_stand_for() -> None:
    plain = {"tokens": [1, 2, 3], "mask": [True, False, True]}
    data = flat(plain, {**plain, "loss_weights": [0.5, 0.0, 0.0]}, plain)
    assert data.loss_weights.tolist() == [1.0, 0.0, 0.0, 0.5, 0.0, 0.0, 1.0, 0.0, 0.0]
    assert flat(plain).loss_weights is None


def test_rows_read_are_kept_as_ranges_and_reasons_as_codes() -> None:
    buffers = FlatSamples(name="chats", vocab_size=None)
    buffers.add_row(3, [{"tokens": [1], "mask": [False]}])
    buffers.add_row(4, "too_long")
    for row in (5, 9):
        buffers.add_row(row, [{"tokens": [1], "mask": [False]}])
    data = buffers.finished(first_row=3, num_rows=7)
    assert data.extra["read"].tolist() == [[3, 6], [9, 10]]
    assert data.left_out.tolist() == [[4, 1]]
    assert data.rows.tolist() == [3, 5, 9]


@pytest.mark.parametrize(
    ("sample", "error", "message"),
    [
        ({"tokens": [1, 2]}, ColumnError, "Row 1 of chats: A sample has 'tokens'. It needs `tokens`, and `mask` or"),
        ({"tokens": [1, 2], "mask": [True]}, DataError, "Row 1 of chats: A sample has 2 tokens and 1 mask values"),
        ({"tokens": [1.5], "mask": [True]}, DataError, "Row 1 of chats: Tokens are float64"),
        ({"tokens": [-1], "mask": [True]}, DataError, "Row 1 of chats: Tokens run from -1 to -1"),
        ({"tokens": [2**31], "mask": [True]}, DataError, "Row 1 of chats: it has a token id from 2,147,483,648 on"),
        ({"tokens": [2**40], "mask": [True]}, DataError, "Row 1 of chats: Tokens run from"),
        ({"tokens": [1], "mask": ["x"]}, DataError, "Row 1 of chats: The mask holds"),
        ({"tokens": [1], "mask": [7]}, DataError, "Row 1 of chats: its mask holds other than True"),
        ({"tokens": [1], "labels": [1, 2]}, DataError, "Row 1 of chats: A sample has 1 tokens and 2 labels"),
        (
            {"tokens": [1], "labels": [2**31]},
            DataError,
            "Row 1 of chats: The labels of a sample are not 32-bit numbers",
        ),
        ({"tokens": [1], "labels": [-5]}, DataError, "Row 1 of chats: it has a label below 0 that is not -100"),
        *(
            (
                {"tokens": [1], "labels": [1], "loss_weights": [weight]},
                DataError,
                "Row 1 of chats: it has a loss weight that is not 0 or above",
            )
            for weight in (-1.0, float("nan"), float("inf"))
        ),
        ({"tokens": [1], "mask": [True], "encoder_input": 0}, DataError, "Row 1 of chats: A sample holds images"),
    ],
)
def test_a_sample_that_is_none_names_its_row(sample: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message.replace("(", r"\(")):
        flat({"tokens": [1], "mask": [False]}, sample)
