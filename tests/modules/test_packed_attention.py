"""The kernels of packed attention agree. The ones that need CUDA are compared in tests/gpu."""

import pytest
import torch
from torch import nn

from torchpipe.data.packing.masks import dense_block_causal_mask, ids_mask, varlen_mask
from torchpipe.errors import ConfigError
from torchpipe.modules import MultiHeadAttention, packed_attention
from torchpipe.modules.block_masks import block_mask, block_mask_of
from torchpipe.modules.packed_attention import attend_by_blocks, attend_by_loop, attend_documents, attend_to_blocks

ROWS = [torch.tensor([3, 130, 1, 166]), torch.tensor([128, 128, 44]), torch.tensor([300])]
"""Documents inside of a block, over several, at its edges, and one of a whole row."""

UNCOMPILED = "ignore:flex_attention called without torch.compile:UserWarning"


def queries_keys_values() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    made = [torch.randn(3, 300, heads, 16, generator=generator) for heads in (4, 2, 2)]
    return made[0], made[1], made[2]


def attention_with(dropout: float) -> MultiHeadAttention:
    projections = [nn.Linear(24, size) for size in (24, 12, 12, 24)]
    names = ("q_proj", "k_proj", "v_proj", "output_proj")
    sizes = {"embed_dim": 24, "num_heads": 4, "num_kv_heads": 2, "head_dim": 6}
    return MultiHeadAttention(**sizes, **dict(zip(names, projections, strict=True)), attn_dropout=dropout)  # pyright: ignore


@pytest.mark.filterwarnings(UNCOMPILED)
@pytest.mark.parametrize("make", [varlen_mask, ids_mask])
def test_flex_attention_gives_what_the_loop_over_documents_gives(make) -> None:
    q, k, v = queries_keys_values()
    by_loop = attend_by_loop(q, k, v, varlen_mask(ROWS))
    torch.testing.assert_close(attend_by_blocks(q, k, v, make(ROWS)), by_loop, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "lens", [[300], [1] * 300, [128, 128, 44], [127, 1, 128, 44], [100, 200], [129, 171], [3, 130, 1, 166]]
)
def test_no_block_that_holds_something_is_left_out(lens: list[int]) -> None:
    blocks = block_mask(ids_mask([torch.tensor(lens)]).document_ids)  # pyright: ignore[reportArgumentType]
    dense = dense_block_causal_mask([torch.tensor(lens)])[0]
    held = blocks.to_dense()[0, 0]
    for query in range(3):
        for key in range(3):
            block = dense[query * 128 : (query + 1) * 128, key * 128 : (key + 1) * 128]
            assert bool(held[query, key]) == bool(block.any())
    assert blocks.full_kv_num_blocks is not None
    assert blocks.full_kv_indices is not None
    for query, num in enumerate(blocks.full_kv_num_blocks[0, 0].tolist()):
        for key in blocks.full_kv_indices[0, 0, query, :num].tolist():
            assert dense[query * 128 : (query + 1) * 128, key * 128 : (key + 1) * 128].all()


def test_a_batchs_block_mask_is_made_once_for_all_layers() -> None:
    mask = ids_mask(ROWS)
    assert block_mask_of(mask, (3, 300)) is block_mask_of(mask, (3, 300))
    assert block_mask_of(ids_mask(ROWS), (3, 300)) is not block_mask_of(mask, (3, 300))


def test_document_ids_and_offsets_say_the_same_on_a_cpu() -> None:
    q, k, v = queries_keys_values()
    torch.testing.assert_close(attend_documents(q, k, v, ids_mask(ROWS)), attend_documents(q, k, v, varlen_mask(ROWS)))


@pytest.mark.filterwarnings(UNCOMPILED)
@torch.no_grad()  # flex attention has no backward on a CPU
def test_a_block_mask_of_the_users_own_is_attended_under() -> None:
    attention, x = attention_with(0.0), torch.randn(1, 200, 24)
    lens = [torch.tensor([150, 50])]
    blocks = block_mask(ids_mask(lens).document_ids)  # pyright: ignore[reportArgumentType]
    torch.testing.assert_close(attention(x, mask=blocks), attention(x, mask=varlen_mask(lens)), atol=1e-5, rtol=1e-5)
    with pytest.raises(ConfigError, match=r"attn_dropout is 0\.5, and flex attention drops no weights"):
        attention_with(0.5)(x, mask=blocks)


def test_padding_attends_to_itself_alone() -> None:
    q, k, v = queries_keys_values()
    lens = [torch.tensor([290, 10])] * 3  # the last document is the padding
    before = attend_documents(q, k, v, varlen_mask(lens))
    k[:, 290:] += 1.0
    after = attend_documents(q, k, v, varlen_mask(lens))
    assert torch.equal(after[:, :290], before[:, :290])


def test_the_one_kernel_path_fits_torchs_signature() -> None:
    # The kernel itself needs CUDA; on the meta device torch checks the call and the shapes.
    q, kv = torch.empty(8, 4, 16, device="meta"), torch.empty(8, 2, 16, device="meta")
    mask = varlen_mask([torch.tensor([3, 5])]).to("meta")
    assert packed_attention.varlen_kernel() is not None
    assert packed_attention.attend_by_offsets(q, kv, kv, mask).shape == (8, 4, 16)


@pytest.mark.filterwarnings(UNCOMPILED)
def test_flex_attention_takes_heads_in_groups() -> None:
    q, kv = torch.randn(1, 8, 4, 16), torch.randn(1, 8, 2, 16)
    blocks = block_mask(torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1]]))
    mask = varlen_mask([torch.tensor([3, 5])])
    attended = attend_to_blocks(q, kv, kv, blocks)
    torch.testing.assert_close(attended, attend_by_loop(q, kv, kv, mask), atol=1e-5, rtol=1e-5)
