"""Masks of packed rows with torchtune's names."""

import subprocess
import sys

import pytest
import torch
from torch.nn.attention.flex_attention import create_mask

from torchpipe.errors import DataError
from torchpipe.modules import attention_utils
from torchpipe.modules.attention_utils import create_block_causal_mask, flex_block_causal_mask, packed_block_causal_mask

SEQ_LENS = [torch.tensor([3, 5, 120, 72]), torch.tensor([200])]


def test_without_a_device_the_mask_is_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    mask = packed_block_causal_mask(SEQ_LENS)
    assert isinstance(mask, torch.Tensor)
    assert mask.dtype == torch.bool
    assert torch.equal(mask, create_block_causal_mask(SEQ_LENS))
    assert mask[0, :8, :8].int().sum() == 6 + 15


def test_the_block_mask_holds_what_the_dense_one_holds() -> None:
    mask = flex_block_causal_mask(SEQ_LENS, "cpu")
    assert mask.shape == (2, 1, 200, 200)
    dense = create_mask(mask.mask_mod, 2, 1, 200, 200, device="cpu")
    assert torch.equal(dense[:, 0], create_block_causal_mask(SEQ_LENS))


@pytest.mark.parametrize(
    ("version", "available", "capability", "supported"),
    [
        ("2.13.0+cu130", True, (9, 0), True),
        ("2.5.0", True, (7, 5), True),
        ("2.4.1", True, (9, 0), False),
        ("2.13.0", True, (7, 0), False),
        ("2.13.0", False, (9, 0), False),
    ],
)
def test_flex_is_asked_for_at_each_call(
    monkeypatch: pytest.MonkeyPatch, version: str, available: bool, capability: tuple[int, int], supported: bool
) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert attention_utils.flex_is_supported() is supported


def test_importing_loads_no_flex_attention() -> None:
    code = "import sys, torchpipe.modules.attention_utils; print('torch.nn.attention.flex_attention' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_rows_of_different_lengths_are_refused() -> None:
    for make in (create_block_causal_mask, packed_block_causal_mask):
        with pytest.raises(DataError, match="Row 1: seq_lens sums to 3, but row 0 sums to 2"):
            make([torch.tensor([2]), torch.tensor([3])])
