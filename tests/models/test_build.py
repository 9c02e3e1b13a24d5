from dataclasses import replace

import pytest
import torch

from torchpipe.models import build_decoder, init_weights
from torchpipe.models.llama3_2 import LLAMA3_2_ROPE_SCALING
from torchpipe.models.tiny import TINY_LLAMA3

SMALL = replace(
    TINY_LLAMA3, vocab_size=60, num_layers=2, num_heads=4, embed_dim=32, intermediate_dim=48, max_seq_len=32
)


def test_the_same_seed_builds_the_same_weights():
    states = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        states.append(build_decoder(SMALL).state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not torch.equal(states[0]["tok_embeddings.weight"], states[2]["tok_embeddings.weight"])


def test_parameters_have_torchtunes_names():
    names = list(build_decoder(replace(SMALL, num_layers=1, tied_embeddings=False)).state_dict())
    assert sorted(names) == sorted(
        [
            "tok_embeddings.weight",
            "layers.0.attn.q_proj.weight",
            "layers.0.attn.k_proj.weight",
            "layers.0.attn.v_proj.weight",
            "layers.0.attn.output_proj.weight",
            "layers.0.mlp.w1.weight",
            "layers.0.mlp.w2.weight",
            "layers.0.mlp.w3.weight",
            "layers.0.sa_norm.scale",
            "layers.0.mlp_norm.scale",
            "norm.scale",
            "output.weight",
        ]
    )


def test_fresh_weights_have_the_documented_spread():
    model = build_decoder(replace(TINY_LLAMA3, num_layers=8))
    state = model.state_dict()
    assert float(state["layers.3.attn.q_proj.weight"].std()) == pytest.approx(0.02, rel=0.05)
    assert float(state["tok_embeddings.weight"].std()) == pytest.approx(0.02, rel=0.05)
    assert float(state["layers.3.mlp.w2.weight"].std()) == pytest.approx(0.02 / 4, rel=0.05)
    assert float(state["layers.3.attn.output_proj.weight"].std()) == pytest.approx(0.02 / 4, rel=0.05)
    assert bool((state["layers.3.sa_norm.scale"] == 1).all())


def test_a_head_may_have_other_features_than_its_share_of_the_embedding():
    model = build_decoder(replace(SMALL, head_dim=20))
    assert model.state_dict()["layers.0.attn.q_proj.weight"].shape == (80, 32)
    assert model(torch.zeros(1, 3, dtype=torch.int64)).shape == (1, 3, 60)


@pytest.mark.parametrize("tied_embeddings", [True, False])
@pytest.mark.parametrize("rope_scaling", [None, LLAMA3_2_ROPE_SCALING])
def test_a_model_built_on_meta_works_after_to_empty(tied_embeddings: bool, rope_scaling):
    config = replace(SMALL, tied_embeddings=tied_embeddings, rope_scaling=rope_scaling)
    torch.manual_seed(0)
    expected = build_decoder(config)
    with torch.device("meta"):
        model = build_decoder(config)
    assert all(parameter.is_meta for parameter in model.parameters())
    model.to_empty(device="cpu")
    model.load_state_dict(expected.state_dict())
    tokens = torch.arange(12).view(2, 6)
    assert torch.equal(model(tokens), expected(tokens))


def test_init_weights_fills_an_empty_model():
    with torch.device("meta"):
        model = build_decoder(SMALL)
    model.to_empty(device="cpu")
    init_weights(model)
    assert bool(model(torch.arange(6).view(1, 6)).isfinite().all())


def test_rope_scaling_changes_the_logits_of_late_positions():
    torch.manual_seed(0)
    plain = build_decoder(SMALL)
    scaled = build_decoder(replace(SMALL, rope_scaling=LLAMA3_2_ROPE_SCALING))
    scaled.load_state_dict(plain.state_dict())
    tokens = torch.arange(32).view(1, 32)
    assert not torch.allclose(plain(tokens), scaled(tokens), atol=1e-7)


def test_training_overfits_one_batch():
    torch.manual_seed(0)
    model = build_decoder(SMALL)
    tokens = torch.randint(0, 60, (2, 17))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    first = last = 0.0
    for step in range(60):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        last = loss.item()
        first = last if step == 0 else first
    assert first > 3.0
    assert last < 0.1
