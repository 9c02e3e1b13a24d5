import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.data import left_pad_sequence
from torchpipe.data.padding import pad_rows, round_up
from torchpipe.errors import ConfigError, DataError


def test_an_exact_multiple_adds_nothing():
    assert [round_up(length, 4) for length in (0, 1, 4, 5, 8)] == [0, 4, 4, 8, 8]


@pytest.mark.parametrize("multiple", [0, -1, 1.5])
def test_a_multiple_below_one_is_refused(multiple: float):
    with pytest.raises(ConfigError, match="must be 1 or more"):
        round_up(3, multiple)  # pyright: ignore[reportArgumentType]


def test_rows_are_filled_on_either_side():
    assert pad_rows([[1, 2, 3], [4]], value=0).tolist() == [[1, 2, 3], [4, 0, 0]]
    assert pad_rows([[1, 2, 3], [4]], value=9, width=4, direction="left").tolist() == [[9, 1, 2, 3], [9, 9, 9, 4]]


def test_lists_arrays_and_tensors_give_the_same():
    rows = [[1, 2], [3]]
    expected = torch.tensor([[1, 2, 0], [3, 0, 0]])
    for made in (
        rows,
        [np.array(row) for row in rows],
        [torch.tensor(row) for row in rows],
        [[1, 2], torch.tensor([3])],
    ):
        assert torch.equal(pad_rows(made, value=0, multiple=3), expected)  # pyright: ignore[reportArgumentType]


def test_types_are_kept_and_an_empty_row_has_none_of_its_own():
    assert pad_rows([[1.5], []], value=0).dtype == torch.float32
    assert pad_rows([[True], []], value=False).dtype == torch.bool
    assert pad_rows([[], [1]], value=0).dtype == torch.int64
    assert pad_rows([[], []], value=0).shape == (2, 0)
    assert pad_rows([np.array([1.5])], value=0).dtype == torch.float64
    assert pad_rows([torch.ones(1, dtype=torch.bfloat16)], value=0).dtype == torch.bfloat16
    assert pad_rows([np.array([7], dtype=np.uint32), [8, 9]], value=0, dtype=torch.int64).tolist() == [[7, 0], [8, 9]]


def test_later_axes_are_kept():
    assert pad_rows([torch.ones(2, 3), torch.ones(1, 3)], value=0).shape == (2, 2, 3)
    assert pad_rows([np.ones((2, 3)), np.ones((1, 3))], value=0).shape == (2, 2, 3)


def test_the_result_shares_no_memory_with_the_rows():
    row = np.array([1, 2, 3])
    pad_rows([row], value=0)[0, 0] = 9
    assert row.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "the batch is empty"),
        ([3, [1]], "must be a list, an array or a tensor; these are int, list"),
        ([torch.tensor(3)], "these are Tensor"),
        ([["a"]], "can't become a tensor"),
        ([[1, [2]]], "can't become a tensor"),
        ([np.ones((1, 2)), np.ones((1, 3))], r"don't fit in one tensor.*\[1, 2\].*\[1, 3\]"),
        ([torch.ones(1, 2), torch.ones(1, 3)], "don't fit in one tensor"),
    ],
)
def test_rows_that_make_no_tensor_are_refused(rows: list, sentence: str):
    with pytest.raises(DataError, match=sentence):
        pad_rows(rows, value=0)


@pytest.mark.parametrize("row", [[1.5], torch.tensor([1.5]), ["a"]])
def test_floats_and_text_never_become_integers(row: object):
    with pytest.raises(DataError, match=r"don't fit in one tensor of torch\.int64"):
        pad_rows([row], value=0, dtype=torch.int64)  # pyright: ignore[reportArgumentType]


def test_left_pad_sequence_is_pad_sequence_from_the_other_side():
    rows = [torch.tensor([1, 2, 3]), torch.tensor([4])]
    assert left_pad_sequence(rows, batch_first=True, padding_value=-1).tolist() == [[1, 2, 3], [-1, -1, 4]]
    assert left_pad_sequence(rows).tolist() == [[1, 0], [2, 0], [3, 4]]
    with pytest.raises(DataError, match="the batch is empty"):
        left_pad_sequence([])


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(-100, 1000), max_size=9), min_size=1, max_size=5),
    st.integers(1, 5),
    st.sampled_from(["left", "right"]),
)
def test_padding_then_cutting_is_the_identity(rows: list[list[int]], multiple: int, direction: str):
    before = [list(row) for row in rows]
    out = pad_rows(rows, value=-7, multiple=multiple, direction=direction)  # pyright: ignore[reportArgumentType]
    longest = max(map(len, rows))
    assert rows == before
    assert out.shape[1] % multiple == 0
    assert 0 <= out.shape[1] - longest < multiple
    for row, line in zip(rows, out.tolist(), strict=True):
        rest = len(line) - len(row)
        assert line == (row + [-7] * rest if direction == "right" else [-7] * rest + row)
