import cmath
import math

import pytest
import torch

from torchpipe.errors import ConfigError, DataError
from torchpipe.models.tiny import tiny_llama3
from torchpipe.modules import Llama3ScaledRoPE, RotaryPositionalEmbeddings


def rotate_one(features: list[float], position: int, base: float) -> list[float]:
    """One head at one position, by complex numbers: each pair times e^(i * position * base^(-2k / dim))."""
    rotated: list[float] = []
    for pair in range(len(features) // 2):
        turn = cmath.exp(1j * position * base ** (-2 * pair / len(features)))
        value = complex(features[2 * pair], features[2 * pair + 1]) * turn
        rotated += [value.real, value.imag]
    return rotated


def scaled_frequency(frequency: float, scale: float, low: float, high: float, old_context: int) -> float:
    """Llama 3.1's rule by wavelengths, as its release describes it."""
    wavelength = 2 * math.pi / frequency
    if wavelength < old_context / high:
        return frequency
    if wavelength > old_context / low:
        return frequency / scale
    smooth = (old_context / wavelength - low) / (high - low)
    return (1 - smooth) * frequency / scale + smooth * frequency


def test_rotation_equals_multiplication_by_complex_numbers():
    x = torch.randn(2, 5, 3, 8, generator=torch.Generator().manual_seed(0))
    input_pos = torch.tensor([[0, 1, 2, 0, 1], [7, 3, 63, 0, 30]])
    rotated = RotaryPositionalEmbeddings(8, max_seq_len=64, base=100.0)(x, input_pos=input_pos)
    for row in range(2):
        for token in range(5):
            for head in range(3):
                expected = rotate_one(x[row, token, head].tolist(), int(input_pos[row, token]), 100.0)
                torch.testing.assert_close(rotated[row, token, head], torch.tensor(expected), atol=1e-5, rtol=1e-5)


def test_without_positions_they_count_along_the_row():
    rope = RotaryPositionalEmbeddings(8, max_seq_len=16)
    x = torch.randn(2, 6, 1, 8)
    assert torch.equal(rope(x), rope(x, input_pos=torch.arange(6).expand(2, 6)))


def test_scores_depend_on_the_distance_of_positions_only():
    rope = RotaryPositionalEmbeddings(16, max_seq_len=1000)
    q, k = torch.randn(1, 1, 1, 16), torch.randn(1, 1, 1, 16)

    def score(q_position: int, k_position: int) -> float:
        turned_q = rope(q, input_pos=torch.tensor([[q_position]]))
        turned_k = rope(k, input_pos=torch.tensor([[k_position]]))
        return float((turned_q * turned_k).sum())

    assert score(7, 2) == pytest.approx(score(905, 900), abs=1e-3)
    assert score(7, 2) != pytest.approx(score(7, 3), abs=1e-3)


@pytest.mark.parametrize("scale", [8.0, 32.0])
def test_scaled_frequencies_follow_the_wavelength_rule(scale: float):
    rope = Llama3ScaledRoPE(128, max_seq_len=2, base=500_000, scale_factor=scale)
    angles = torch.atan2(rope.cache[1, :, 1], rope.cache[1, :, 0])  # position 1 turns by the frequency itself
    expected = [scaled_frequency(500_000 ** (-2 * pair / 128), scale, 1.0, 4.0, 8192) for pair in range(64)]
    torch.testing.assert_close(angles, torch.tensor(expected), atol=1e-7, rtol=1e-5)
    kept = RotaryPositionalEmbeddings(128, max_seq_len=2, base=500_000).cache
    assert torch.equal(rope.cache[:, :20], kept[:, :20])  # fast rotations are kept
    assert not torch.equal(rope.cache[:, 60:], kept[:, 60:])


def test_the_rotation_is_float32_and_returns_the_inputs_type():
    rope = RotaryPositionalEmbeddings(8, max_seq_len=16)
    x = torch.randn(1, 16, 2, 8).bfloat16()
    rotated = rope(x)
    assert rotated.dtype == torch.bfloat16
    assert torch.equal(rotated, rope(x.float()).bfloat16())


def test_the_cache_is_not_in_the_state_dict_and_stays_float32():
    rope = RotaryPositionalEmbeddings(8, max_seq_len=16)
    before = rope.cache.clone()
    rope.to(torch.bfloat16)
    assert not rope.state_dict()
    assert rope.cache.dtype == torch.float32
    assert torch.equal(rope.cache, before)


def test_a_cache_built_on_meta_is_right_after_to_empty():
    with torch.device("meta"):
        rope = RotaryPositionalEmbeddings(8, max_seq_len=16)
    assert rope.cache.is_meta
    layers = torch.nn.ModuleList([torch.nn.Sequential(rope), torch.nn.Sequential(rope)])  # to_empty visits it twice
    layers.to_empty(device="cpu")
    assert torch.equal(rope.cache, RotaryPositionalEmbeddings(8, max_seq_len=16).cache)


@pytest.mark.parametrize("kind", [RotaryPositionalEmbeddings, Llama3ScaledRoPE])
def test_rope_init_writes_the_cache_again(kind):
    rope = kind(8, max_seq_len=16)
    before = rope.cache.clone()
    rope.cache.zero_()
    rope.rope_init()
    assert torch.equal(rope.cache, before)


@pytest.mark.parametrize("kind", [RotaryPositionalEmbeddings, Llama3ScaledRoPE])
def test_a_cache_left_on_meta_is_computed_by_rope_init_and_by_the_first_use(kind):
    expected = kind(8, max_seq_len=16)
    with torch.device("meta"):
        first, second = kind(8, max_seq_len=16), kind(8, max_seq_len=16)
    first.rope_init()
    assert torch.equal(first.cache, expected.cache)
    x = torch.randn(1, 16, 2, 8)
    assert torch.equal(second(x), expected(x))
    assert not second.state_dict()


def test_a_model_built_on_meta_computes_the_same_once_it_has_weights():
    model = tiny_llama3(30, num_layers=2, max_seq_len=32)
    tokens = torch.arange(20).unsqueeze(0)
    with torch.device("meta"):
        emptied, assigned = (tiny_llama3(30, num_layers=2, max_seq_len=32) for _ in range(2))
    emptied.to_empty(device="cpu").load_state_dict(model.state_dict())
    assigned.load_state_dict(model.state_dict(), assign=True)
    assert torch.equal(emptied(tokens), model(tokens))
    assert torch.equal(assigned(tokens), model(tokens))


def test_positions_beyond_the_cache_are_refused():
    rope = RotaryPositionalEmbeddings(8, max_seq_len=16)
    with pytest.raises(DataError, match="Position 16 is beyond the rotary embeddings, which know positions below 16"):
        rope(torch.randn(1, 2, 1, 8), input_pos=torch.tensor([[3, 16]]))
    with pytest.raises(DataError, match="Position 16 is beyond"):
        rope(torch.randn(1, 17, 1, 8))


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ConfigError, match=r"dim is 7\. Give an even dim"):
        RotaryPositionalEmbeddings(7)
    with pytest.raises(ConfigError, match=r"low_freq_factor is 4\.0 and high_freq_factor is 4\.0"):
        Llama3ScaledRoPE(8, low_freq_factor=4.0)


@pytest.mark.parametrize("shape", [(5,), (2, 1), (1, 4), (3, 5), (2, 5, 1)])
def test_positions_of_another_shape_are_refused_and_not_spread(shape: tuple[int, ...]):
    rope = RotaryPositionalEmbeddings(4, max_seq_len=8)
    message = r"input_pos has the shape \[.*, and there are 2 rows of 5 tokens. Give \[2, 5\]"
    with pytest.raises(DataError, match=message):
        rope(torch.ones(2, 5, 1, 4), input_pos=torch.zeros(shape, dtype=torch.int64))
