"""On CUDA, forward and backward of the kernels for packed rows equal those of the loop over documents."""

import pytest
import torch

from torchpipe.data.packing.masks import PackedMask, ids_mask, varlen_mask
from torchpipe.modules import packed_attention
from torchpipe.modules.packed_attention import attend_by_blocks, attend_by_loop, attend_by_offsets, attend_documents

pytestmark = pytest.mark.gpu

ROWS = [torch.tensor([3, 130, 1, 1914]), torch.tensor([128, 896, 1000, 24]), torch.tensor([2048])]
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2}


@pytest.fixture(autouse=True)
def _needs_a_device() -> None:
    if not torch.cuda.is_available():
        pytest.fail("These tests compare kernels on a CUDA device, and torch sees none.")
    torch.set_float32_matmul_precision("highest")


def made(dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, 2048, heads, 64) for heads in (8, 2, 2)]
    return [torch.randn(shape, generator=generator).to("cuda", dtype).requires_grad_() for shape in shapes]


def with_gradients(attend, mask: PackedMask, dtype: torch.dtype) -> list[torch.Tensor]:
    q, k, v = made(dtype)
    attended = attend(q, k, v, mask)
    weights = torch.linspace(-1, 1, attended.numel(), device="cuda").view_as(attended).to(dtype)
    (attended * weights).sum().backward()
    return [attended.detach(), *(tensor.grad for tensor in (q, k, v) if tensor.grad is not None)]


@pytest.mark.parametrize("make", [varlen_mask, ids_mask])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_flex_attention_equals_the_loop(make, dtype: torch.dtype) -> None:
    mask = make(ROWS).to("cuda")
    by_blocks, by_loop = (with_gradients(attend, mask, dtype) for attend in (attend_by_blocks, attend_by_loop))
    assert len(by_blocks) == 4
    for found, wanted in zip(by_blocks, by_loop, strict=True):
        torch.testing.assert_close(found, wanted, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


def by_offsets(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: PackedMask) -> torch.Tensor:
    return attend_by_offsets(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), mask).view_as(q)


def test_the_kernel_for_offsets_equals_the_loop() -> None:
    assert packed_attention.varlen_kernel() is not None, "this torch has no varlen_attn with the signature used here"
    mask = varlen_mask(ROWS).to("cuda")
    kernel, by_loop = (with_gradients(attend, mask, torch.bfloat16) for attend in (by_offsets, attend_by_loop))
    assert len(kernel) == 4
    for found, wanted in zip(kernel, by_loop, strict=True):
        torch.testing.assert_close(found, wanted, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("make", [varlen_mask, ids_mask])
def test_a_token_of_another_document_changes_nothing_to_the_bit(make) -> None:
    mask = make([torch.tensor([1000, 1048])]).to("cuda")
    q, k, v = (tensor.detach()[:1] for tensor in made(torch.bfloat16))
    before = attend_documents(q, k, v, mask)
    changed = k.clone()
    changed[:, 1000:] += 1.0
    assert torch.equal(attend_documents(q, changed, v, mask)[:, :1000], before[:, :1000])
