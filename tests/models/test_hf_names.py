"""One table of names, and rows that move between two orders without a change."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.models import DecoderConfig
from torchpipe.models.hf_names import TENSOR_NAMES, halves_from_pairs, name_in, pairs_from_halves, row_of


def test_the_table_names_every_tensor_of_a_decoder_once(fresh) -> None:
    names = list(fresh().state_dict())
    for layout in ("ours", "hf", "meta"):
        named = [name_in(layout, name) for name in names]
        assert None not in named
        assert len(set(named)) == len(names)
    assert {row_of(name) for name in names} == set(TENSOR_NAMES)
    assert name_in("hf", "layers.0.attn.q_proj.lora_a.weight") is None


@given(num_heads=st.integers(1, 5), half=st.integers(1, 6), width=st.integers(0, 3))
def test_moving_rows_there_and_back_changes_nothing(num_heads: int, half: int, width: int) -> None:
    tensor = torch.rand(num_heads * half * 2, *([width] * (width > 0)))
    moved = halves_from_pairs(tensor, half * 2)
    assert torch.equal(pairs_from_halves(moved, half * 2), tensor)
    assert torch.equal(halves_from_pairs(pairs_from_halves(tensor, half * 2), half * 2), tensor)


def test_a_heads_rows_stay_in_it(config: DecoderConfig) -> None:
    rows = torch.arange(3).repeat_interleave(8)
    assert torch.equal(halves_from_pairs(rows, 8), rows)


@pytest.mark.parametrize("layer", [0, 9, 10, 79, 125])
def test_numbers_of_layers_are_kept(layer: int) -> None:
    assert name_in("meta", f"layers.{layer}.sa_norm.scale") == f"layers.{layer}.attention_norm.weight"
