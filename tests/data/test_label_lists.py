"""Labels as lists: those of next_token_labels, whatever the sample is made of."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.data.label_lists import label_list
from torchpipe.data.sequences import next_token_labels
from torchpipe.errors import DataError


@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.booleans())))
def test_they_are_those_of_the_array(sample: list[tuple[int, bool]]) -> None:
    tokens, mask = [token for token, _ in sample], [masked for _, masked in sample]
    assert label_list(tokens, mask) == next_token_labels(tokens, mask).tolist()


@pytest.mark.parametrize(
    ("tokens", "mask"),
    [
        ((5, 6, 7), (True, False, False)),
        (np.array([5, 6, 7]), np.array([True, False, False])),
        ([np.int64(5), np.int64(6)], [False, False]),
        ([5, 6, 7], [1, 0, 0]),
        ([5, 6, 7], [np.True_, np.False_, np.False_]),
    ],
)
def test_other_sequences_give_the_same(tokens: Any, mask: Any) -> None:
    assert label_list(tokens, mask) == next_token_labels(tokens, mask).tolist()


@pytest.mark.parametrize(
    ("tokens", "mask", "fault"),
    [
        ([5, 6], [True], "2 tokens and 1 mask values"),
        ([5, -6], [True, False], "Tokens run from -6 to 5"),
        ([5, 2**31], [True, False], "Tokens run from 5 to 2147483648"),
        ([5, 6.5], [True, False], "Tokens are float64"),
        ([True, False], [True, False], "Tokens are bool"),
        ([5, 6], [True, 2], "The mask holds"),
        ([5, 6], [True, None], "The mask holds"),
    ],
)
def test_what_is_no_sample_is_refused_alike(tokens: Any, mask: Any, fault: str) -> None:
    for labels in (label_list, next_token_labels):
        with pytest.raises(DataError, match=fault):
            labels(tokens, mask)
