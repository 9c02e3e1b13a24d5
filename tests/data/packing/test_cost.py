"""Costs are integers that follow from a model's sizes."""

from dataclasses import replace

import numpy as np
import pytest

from torchpipe.data.packing import CostModel
from torchpipe.errors import ConfigError
from torchpipe.models.config import DecoderConfig

LLAMA3_8B = DecoderConfig(
    vocab_size=128_256,
    num_layers=32,
    num_heads=32,
    num_kv_heads=8,
    embed_dim=4096,
    intermediate_dim=14_336,
    max_seq_len=8192,
    rope_base=500_000.0,
)


def test_the_coefficients_of_a_decoder_are_its_operations() -> None:
    cost = CostModel.of_decoder(LLAMA3_8B)
    # Llama 3 8B has 8,030,261,248 parameters, of which the input embedding's and the norms' multiply nothing.
    multiplied = 8_030_261_248 - 128_256 * 4096 - (2 * 32 + 1) * 4096
    assert cost.per_token * cost.unit == 6 * multiplied
    assert cost.per_pair * cost.unit == 12 * 32 * 32 * 128
    assert np.gcd(cost.per_token, cost.per_pair) == 1


def test_a_head_may_have_a_size_of_its_own() -> None:
    cost = CostModel.of_decoder(replace(LLAMA3_8B, head_dim=256), media_flops=10**12)
    assert cost.per_pair * cost.unit == 12 * 32 * 32 * 256
    assert cost.per_media * cost.unit == 10**12


def test_attention_costs_as_much_as_the_rest_at_a_length_of_tens_of_thousands() -> None:
    cost = CostModel.of_decoder(LLAMA3_8B)
    linear = CostModel(per_token=cost.per_token, per_pair=0)
    share = 1 - linear(np.array([2048, 131_072])) / cost(np.array([2048, 131_072]))
    assert share[0] < 0.05
    assert share[1] > 0.5


def test_costs_are_exact_integers() -> None:
    cost = CostModel(per_token=3, per_pair=7, per_media=11)
    lengths = np.array([0, 1, 10**6], dtype=np.uint32)
    expected = [3 * n + 7 * n * (n + 1) // 2 for n in lengths.tolist()]
    assert cost(lengths).tolist() == expected
    assert cost(lengths).dtype == np.int64
    assert cost(lengths, np.array([0, 1, 2])).tolist() == [e + 11 * m for e, m in zip(expected, (0, 1, 2), strict=True)]
    assert cost(np.empty(0, dtype=np.int64)).tolist() == []


def test_costs_beyond_64_bits_are_refused() -> None:
    with pytest.raises(ConfigError, match="A document of 10000000 tokens costs .*, more than 64 bits hold"):
        CostModel(per_token=1, per_pair=10**9)(np.array([10**7]))


def test_coefficients_are_whole_numbers_and_not_all_zero() -> None:
    with pytest.raises(ConfigError, match="per_token, per_pair and per_media are all 0"):
        CostModel(per_token=0, per_pair=0)
    with pytest.raises(ConfigError, match="per_pair is -1. Give a whole number."):
        CostModel(per_token=1, per_pair=-1)
    with pytest.raises(ConfigError, match="unit is 0. Give a whole number above 0."):
        CostModel(per_token=1, per_pair=1, unit=0)
