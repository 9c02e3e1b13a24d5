from dataclasses import FrozenInstanceError, fields, replace

import pytest

from torchpipe.errors import ConfigError
from torchpipe.models import DecoderConfig, RopeScaling
from torchpipe.models.llama3 import LLAMA3_8B, LLAMA3_70B
from torchpipe.models.llama3_1 import LLAMA3_1_8B, LLAMA3_1_70B, LLAMA3_1_405B
from torchpipe.models.llama3_2 import LLAMA3_2_1B, LLAMA3_2_3B
from torchpipe.models.tiny import TINY_LLAMA3

ROWS = [LLAMA3_8B, LLAMA3_70B, LLAMA3_1_8B, LLAMA3_1_70B, LLAMA3_1_405B, LLAMA3_2_1B, LLAMA3_2_3B, TINY_LLAMA3]


def test_every_field_differs_between_rows_or_is_written_in_one():
    constant = {field.name for field in fields(DecoderConfig) if len({getattr(row, field.name) for row in ROWS}) == 1}
    assert constant == {"norm_eps", "attn_dropout"}  # 1e-5 throughout, as published; a choice of each training


def test_a_config_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        TINY_LLAMA3.num_layers = 2  # pyright: ignore[reportAttributeAccessIssue]


def test_features_per_head_follow_from_the_sizes_unless_given():
    assert LLAMA3_8B.features_per_head == 128
    assert replace(LLAMA3_8B, head_dim=64).features_per_head == 64


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_layers": 0}, "num_layers is 0. Give a number above 0"),
        ({"norm_eps": -1.0}, "norm_eps is -1.0. Give a number above 0"),
        ({"num_kv_heads": 3}, "num_heads is 8 and num_kv_heads is 3. .* must divide num_heads"),
        ({"embed_dim": 130}, "embed_dim is 130 and num_heads is 8, which does not divide it"),
        ({"attn_dropout": 1.5}, "attn_dropout is 1.5. Give a probability between 0 and 1"),
        ({"head_dim": 7}, "A head has 7 features, and rotary embeddings turn pairs"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(changes: dict, message: str):
    with pytest.raises(ConfigError, match=message):
        replace(TINY_LLAMA3, **changes)


def test_rope_scaling_without_room_between_low_and_high_is_refused():
    with pytest.raises(ConfigError, match=r"low_freq_factor is 4\.0 and high_freq_factor is 1\.0"):
        RopeScaling(scale_factor=8.0, low_freq_factor=4.0, high_freq_factor=1.0, old_context_len=8192)
    with pytest.raises(ConfigError, match=r"scale_factor is 0\. Give a number above 0"):
        RopeScaling(scale_factor=0, low_freq_factor=1.0, high_freq_factor=4.0, old_context_len=8192)
