import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.data import CROSS_ENTROPY_IGNORE_IDX, next_token_labels, truncate
from torchpipe.data.label_lists import labelled
from torchpipe.data.sequences import trained_positions
from torchpipe.errors import ConfigError, DataError

ids = st.lists(st.integers(0, 200_000), max_size=30)
relaxed = settings(deadline=None)


# --- truncate ------------------------------------------------------------------------------------------------------


def test_right_keeps_the_start_and_left_the_end():
    assert truncate([1, 2, 3, 4], 2) == [1, 2]
    assert truncate([1, 2, 3, 4], 2, truncation_type="left") == [3, 4]


def test_the_last_token_becomes_eos_only_when_something_was_cut():
    assert truncate([1, 2, 3, 4], 3, 9) == [1, 2, 9]
    assert truncate([1, 2, 3, 4], 3, 9, "left") == [2, 3, 9]
    assert truncate([1, 2, 3], 3, 9) == [1, 2, 3]
    assert truncate([1, 2, 3], None, 9) == [1, 2, 3]


def test_a_left_cut_keeps_an_eos_that_is_there():
    assert truncate([1, 2, 3, 9], 2, 9, "left") == [3, 9]


def test_a_mask_is_cut_the_same_way():
    assert truncate([True, True, False, False], 2, False) == [True, False]


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_length_of_zero_keeps_nothing(side: str):
    assert truncate([1, 2], 0, 9, side) == []


def test_the_result_is_a_new_list():
    tokens = [1, 2, 3]
    kept = truncate(tokens, None)
    assert kept == tokens
    assert kept is not tokens


def test_an_unknown_side_is_refused():
    with pytest.raises(ConfigError, match=r"truncation_type 'rigth'.*'right', 'left'.*Did you mean 'right'"):
        truncate([1], 1, truncation_type="rigth")


def test_a_negative_length_is_refused():
    with pytest.raises(ValueError, match="max_seq_len=-1 is negative"):
        truncate([1], -1)


@relaxed
@given(
    ids, st.one_of(st.none(), st.integers(0, 40)), st.one_of(st.none(), st.just(-7)), st.sampled_from(["left", "right"])
)
def test_truncate_keeps_a_prefix_or_a_suffix(tokens: list[int], limit: int | None, eos: int | None, side: str):
    before = list(tokens)
    kept = truncate(tokens, limit, eos, side)
    assert tokens == before
    assert len(kept) == (len(tokens) if limit is None else min(limit, len(tokens)))
    cut = len(kept) < len(tokens)
    expected = tokens[: len(kept)] if side == "right" else tokens[len(tokens) - len(kept) :]
    if cut and eos is not None and kept:
        assert kept[-1] == eos
        assert kept[:-1] == expected[:-1]
    else:
        assert kept == expected


# --- next_token_labels ---------------------------------------------------------------------------------------------


def test_a_prompt_of_three_and_an_answer_of_two_have_exactly_two_targets():
    labels = next_token_labels([1, 2, 3, 4, 5], [True, True, True, False, False])
    assert labels.tolist() == [-100, -100, 4, 5, -100]
    assert labels.dtype == np.int64


def test_no_tokens_have_no_labels_and_one_has_no_target():
    assert next_token_labels([], []).tolist() == []
    assert next_token_labels([7], [False]).tolist() == [CROSS_ENTROPY_IGNORE_IDX]


def test_different_lengths_are_refused_and_never_broadcast():
    with pytest.raises(DataError, match="3 tokens and 2 mask values"):
        next_token_labels([1, 2, 3], [True, False])
    with pytest.raises(DataError, match="3 tokens and 1 mask values"):
        next_token_labels([1, 2, 3], [True])


def test_tokens_that_are_not_integers_are_refused():
    with pytest.raises(DataError, match="Tokens are float64"):
        next_token_labels([1.5, 2.5], [False, False])  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match=r"shape \[2, 1\]"):
        next_token_labels(np.ones((2, 1), dtype=np.int64), np.zeros((2, 1), dtype=bool))


def test_arrays_are_read_and_not_changed():
    tokens, mask = np.array([1, 2, 3], dtype=np.uint32), np.array([True, False, True])
    assert next_token_labels(tokens, mask).tolist() == [2, -100, -100]
    assert tokens.tolist() == [1, 2, 3]
    assert mask.tolist() == [True, False, True]
    assert next_token_labels(torch.tensor([1, 2]), torch.tensor([True, False])).tolist() == [2, -100]  # pyright: ignore[reportArgumentType]


@relaxed
@given(st.lists(st.tuples(st.integers(0, 200_000), st.booleans()), max_size=40))
def test_every_label_is_the_next_token_or_ignored(pairs: list[tuple[int, bool]]):
    tokens, mask = [token for token, _ in pairs], [masked for _, masked in pairs]
    labels = next_token_labels(tokens, mask).tolist()
    expected = [CROSS_ENTROPY_IGNORE_IDX if masked else token for token, masked in pairs[1:]]
    assert labels == ([*expected, CROSS_ENTROPY_IGNORE_IDX] if pairs else [])
    trained = sum(label != CROSS_ENTROPY_IGNORE_IDX for label in labels)
    assert trained == sum(not masked for masked in mask[1:])


def test_positions_of_many_samples_are_those_of_each_alone() -> None:
    masks = [[True, False, False], [False], [], [False, False], [True, True]]
    ends = np.cumsum([len(mask) for mask in masks])
    found = trained_positions(np.array([masked for mask in masks for masked in mask]), ends)
    wanted = [label != -100 for mask in masks for label in next_token_labels([1] * len(mask), mask)]
    assert found.tolist() == wanted
    assert trained_positions(np.zeros(0, dtype=bool), np.zeros(1, dtype=np.int64)).tolist() == []


def test_labels_that_a_sample_has_stay() -> None:
    assert labelled({"tokens": [1, 2], "mask": [True, False], "labels": [7, 8]})["labels"] == [7, 8]
    given = {"tokens": [1, 2], "mask": [True, False]}
    assert labelled(given)["labels"] == [2, -100]
    assert "labels" not in given
