from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.data.packing.masks import PackedMask, dense_block_causal_mask, document_ids, varlen_mask
from torchpipe.errors import DataError

ROWS = [torch.tensor([2, 3, 1]), torch.tensor([6])]


@st.composite
def rows_of_documents(draw: st.DrawFn) -> list[torch.Tensor]:
    row_len = draw(st.integers(1, 20))
    rows = []
    for _ in range(draw(st.integers(1, 3))):
        cuts = sorted(draw(st.lists(st.integers(0, row_len), max_size=6)))
        bounds = [0, *cuts, row_len]
        rows.append(torch.tensor([stop - start for start, stop in pairwise(bounds)]))
    return rows


def test_document_ids_count_from_zero_in_each_row():
    ids = document_ids(ROWS)
    assert ids.dtype == torch.int64
    assert ids.tolist() == [[0, 0, 1, 1, 1, 2], [0] * 6]


def test_dense_mask_attends_within_a_document_up_to_the_token_itself():
    mask = dense_block_causal_mask(ROWS)
    assert mask.dtype == torch.bool
    first = torch.block_diag(*[torch.ones(n, n).tril() for n in (2, 3, 1)]).bool()
    assert torch.equal(mask, torch.stack([first, torch.ones(6, 6).tril().bool()]))


def test_varlen_mask_lists_documents_row_by_row():
    mask = varlen_mask(ROWS)
    assert mask.cu_seqlens.dtype == torch.int32
    assert mask.cu_seqlens.tolist() == [0, 2, 5, 6, 12]
    assert (mask.max_seqlen, mask.lens) == (6, (2, 3, 1, 6))


def test_varlen_mask_leaves_out_documents_of_no_tokens():
    assert varlen_mask([torch.tensor([0, 2, 0, 1]), torch.tensor([3, 0])]).lens == (2, 1, 3)


def test_varlen_mask_of_rows_of_no_tokens_has_no_documents():
    mask = varlen_mask([torch.tensor([0])])
    assert (mask.cu_seqlens.tolist(), mask.max_seqlen, mask.lens) == ([0], 0, ())


@given(rows_of_documents())
def test_varlen_and_dense_masks_say_the_same(rows: list[torch.Tensor]):
    mask = varlen_mask(rows)
    num_rows, row_len = len(rows), int(rows[0].sum())
    whole = torch.block_diag(*[torch.ones(n, n).tril() for n in mask.lens]).bool()
    blocks = whole.view(num_rows, row_len, num_rows, row_len)
    dense = dense_block_causal_mask(rows)
    for row in range(num_rows):
        assert torch.equal(blocks[row, :, row], dense[row])
    assert int(whole.sum()) == int(dense.sum())  # nothing attends across rows


@given(rows_of_documents())
def test_every_token_attends_to_itself(rows: list[torch.Tensor]):
    assert bool(dense_block_causal_mask(rows).diagonal(dim1=1, dim2=2).all())


def test_varlen_mask_moves_to_a_device():
    moved = varlen_mask(ROWS).to("meta", non_blocking=True)
    assert isinstance(moved, PackedMask)
    assert moved.cu_seqlens.device.type == "meta"
    assert moved.lens == (2, 3, 1, 6)


@pytest.mark.parametrize("build", [document_ids, dense_block_causal_mask, varlen_mask])
def test_rows_of_different_lengths_are_refused_by_their_number(build):
    with pytest.raises(DataError, match=r"Row 1: seq_lens sums to 5, but row 0 sums to 6.*add the padding"):
        build([torch.tensor([6]), torch.tensor([2, 3])])


@pytest.mark.parametrize("build", [document_ids, dense_block_causal_mask, varlen_mask])
def test_negative_lengths_and_no_rows_are_refused(build):
    with pytest.raises(DataError, match=r"Row 0: seq_lens is \[7, -1\], with a negative length"):
        build([torch.tensor([7, -1])])
    with pytest.raises(DataError, match="seq_lens has no rows"):
        build([])


@pytest.mark.parametrize("lens", [torch.tensor([1.0, 2.0]), torch.tensor([[1, 2]]), torch.tensor(3), [1.5], "ab", None])
def test_lengths_that_are_no_row_of_integers_are_refused(lens: Any):
    for make in (document_ids, dense_block_causal_mask, varlen_mask):
        with pytest.raises(DataError, match="Row 0: seq_lens is .*whole numbers"):
            make([lens])


@pytest.mark.parametrize("lens", [[2, 1], (2, 1), np.array([2, 1]), list(np.array([2, 1], dtype=np.int32))])
def test_lengths_may_be_lists_and_arrays(lens: Any):
    assert varlen_mask([lens]).lens == (2, 1)
    assert document_ids([lens]).tolist() == [[0, 0, 1]]
