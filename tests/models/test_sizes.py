import pytest
import torch

from torchpipe.models.llama3 import llama3_8b, llama3_70b, lora_llama3_8b, lora_llama3_70b
from torchpipe.models.llama3_1 import (
    llama3_1_8b,
    llama3_1_70b,
    llama3_1_405b,
    lora_llama3_1_8b,
    lora_llama3_1_70b,
    lora_llama3_1_405b,
)
from torchpipe.models.llama3_2 import llama3_2_1b, llama3_2_3b, lora_llama3_2_1b, lora_llama3_2_3b
from torchpipe.models.llama3_3 import llama3_3_70b, lora_llama3_3_70b
from torchpipe.models.tiny import tiny_llama3
from torchpipe.modules import Llama3ScaledRoPE, MultiHeadAttention, TransformerDecoder, TransformerSelfAttentionLayer


def rope_of(model: TransformerDecoder) -> torch.nn.Module | None:
    layer = model.layers[0]
    assert isinstance(layer, TransformerSelfAttentionLayer)
    assert isinstance(layer.attn, MultiHeadAttention)
    return layer.attn.pos_embeddings


@pytest.mark.parametrize(
    ("builder", "num_parameters", "max_seq_len"),
    [
        (llama3_8b, 8_030_261_248, 8192),
        (llama3_70b, 70_553_706_496, 8192),
        (llama3_1_8b, 8_030_261_248, 131_072),
        (llama3_1_70b, 70_553_706_496, 131_072),
        (llama3_1_405b, 405_853_388_800, 131_072),
        (llama3_2_1b, 1_235_814_400, 131_072),
        (llama3_2_3b, 3_212_749_824, 131_072),
        (llama3_3_70b, 70_553_706_496, 131_072),
    ],
)
def test_published_sizes_have_the_published_number_of_parameters(builder, num_parameters: int, max_seq_len: int):
    with torch.device("meta"):
        model = builder()
    assert sum(parameter.numel() for parameter in model.parameters()) == num_parameters
    assert model.max_seq_len == max_seq_len


@pytest.mark.parametrize(
    ("plain", "adapted"),
    [
        (llama3_8b, lora_llama3_8b),
        (llama3_70b, lora_llama3_70b),
        (llama3_1_8b, lora_llama3_1_8b),
        (llama3_1_70b, lora_llama3_1_70b),
        (llama3_1_405b, lora_llama3_1_405b),
        (llama3_2_1b, lora_llama3_2_1b),
        (llama3_2_3b, lora_llama3_2_3b),
        (llama3_3_70b, lora_llama3_3_70b),
    ],
)
def test_every_size_can_have_adapters(plain, adapted):
    with torch.device("meta"):
        base, model = plain(), adapted(["q_proj", "v_proj"], lora_rank=4)
    assert model.config == base.config
    config = base.config
    per_layer = 4 * (2 * config.embed_dim + (config.num_heads + config.num_kv_heads) * config.features_per_head)
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == config.num_layers * per_layer
    frozen = {name: p.shape for name, p in model.named_parameters() if not p.requires_grad}
    assert frozen == {name: p.shape for name, p in base.named_parameters()}


@pytest.mark.parametrize("builder", [llama3_2_1b, llama3_2_3b])
def test_the_output_projection_can_have_a_weight_of_its_own(builder):
    with torch.device("meta"):
        assert "output.weight" not in builder().state_dict()
        model = builder(tie_word_embeddings=False)
    assert model.state_dict()["output.weight"].shape == model.tok_embeddings.weight.shape


@pytest.mark.parametrize(("builder", "scale_factor"), [(llama3_1_8b, 8.0), (llama3_2_1b, 32.0)])
def test_later_releases_scale_the_rotary_embeddings(builder, scale_factor: float):
    with torch.device("meta"):
        rope = rope_of(builder())
    assert isinstance(rope, Llama3ScaledRoPE)
    assert (rope.scale_factor, rope.low_freq_factor, rope.high_freq_factor) == (scale_factor, 1.0, 4.0)
    assert (rope.old_context_len, rope.base) == (8192, 500_000.0)


def test_the_tiny_model_takes_its_sizes_from_keywords():
    model = tiny_llama3(
        70, num_layers=1, num_heads=2, num_kv_heads=1, embed_dim=16, intermediate_dim=24, head_dim=4, max_seq_len=8
    )
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    assert shapes["tok_embeddings.weight"] == (70, 16)
    assert shapes["layers.0.attn.q_proj.weight"] == (8, 16)
    assert shapes["layers.0.attn.k_proj.weight"] == (4, 16)
    assert shapes["layers.0.mlp.w1.weight"] == (24, 16)
    assert "layers.1.mlp.w1.weight" not in shapes
    assert "output.weight" not in shapes
    assert "output.weight" in tiny_llama3(70, num_layers=1, tied_embeddings=False).state_dict()
    assert model.max_seq_len == 8


def test_the_tiny_model_has_about_a_million_parameters():
    assert 0.9e6 < sum(parameter.numel() for parameter in tiny_llama3().parameters()) < 1.3e6
