import warnings

import pytest
import torch

from torchpipe.models import DecoderConfig, RopeScaling, build_decoder
from torchpipe.modules import TransformerDecoder

NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, EMBED_DIM = 4, 2, 8, 32
SCALING = RopeScaling(scale_factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, old_context_len=64)
NAMES = {
    "attn.q_proj": "self_attn.q_proj",
    "attn.k_proj": "self_attn.k_proj",
    "attn.v_proj": "self_attn.v_proj",
    "attn.output_proj": "self_attn.o_proj",
    "mlp.w1": "mlp.gate_proj",
    "mlp.w2": "mlp.down_proj",
    "mlp.w3": "mlp.up_proj",
    "sa_norm": "input_layernorm",
    "mlp_norm": "post_attention_layernorm",
}


def huggingface_state(model: TransformerDecoder, tied_embeddings: bool) -> dict[str, torch.Tensor]:
    state = {}
    for name, tensor in model.state_dict().items():
        if name.startswith("layers."):
            _, layer, rest = name.split(".", 2)
            if rest in ("attn.q_proj.weight", "attn.k_proj.weight"):
                # Neighbouring features are a pair here; there, feature i and feature i + head_dim / 2.
                tensor = tensor.unflatten(0, (-1, HEAD_DIM // 2, 2)).transpose(1, 2).reshape(tensor.shape)
            state[f"model.layers.{layer}.{NAMES[rest.rpartition('.')[0]]}.weight"] = tensor
        else:
            whole = {
                "tok_embeddings.weight": "model.embed_tokens",
                "norm.scale": "model.norm",
                "output.weight": "lm_head",
            }
            state[f"{whole[name]}.weight"] = tensor
    if tied_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    return state


@pytest.mark.parametrize("tied_embeddings", [True, False])
@pytest.mark.parametrize("scaling", [None, SCALING])
def test_logits_equal_the_transformers_library(oracle_file, tied_embeddings: bool, scaling: RopeScaling | None):
    oracle_file("transformers", "__init__.py")
    config = DecoderConfig(
        vocab_size=64,
        num_layers=3,
        num_heads=NUM_HEADS,
        num_kv_heads=NUM_KV_HEADS,
        embed_dim=EMBED_DIM,
        intermediate_dim=48,
        max_seq_len=256,
        rope_base=10_000.0,
        rope_scaling=scaling,
        norm_eps=1e-5,
        tied_embeddings=tied_embeddings,
    )
    rope_parameters: dict = {"rope_type": "default", "rope_theta": 10_000.0}
    if scaling is not None:
        rope_parameters |= {
            "rope_type": "llama3",
            "factor": scaling.scale_factor,
            "low_freq_factor": scaling.low_freq_factor,
            "high_freq_factor": scaling.high_freq_factor,
            "original_max_position_embeddings": scaling.old_context_len,
        }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import LlamaConfig, LlamaForCausalLM

        oracle = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=64,
                hidden_size=EMBED_DIM,
                intermediate_size=48,
                num_hidden_layers=3,
                num_attention_heads=NUM_HEADS,
                num_key_value_heads=NUM_KV_HEADS,
                max_position_embeddings=256,
                rms_norm_eps=1e-5,
                tie_word_embeddings=tied_embeddings,
                rope_parameters=rope_parameters,
            )
        ).eval()
    torch.manual_seed(0)
    model = build_decoder(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.2)
    oracle.load_state_dict(huggingface_state(model, tied_embeddings), strict=True)
    tokens = torch.randint(0, 64, (2, 200))
    with torch.no_grad():
        logits, expected = model(tokens), oracle(input_ids=tokens).logits
    assert float((logits - expected).norm() / expected.norm()) < 1e-5
    torch.testing.assert_close(logits, expected, atol=float(1e-5 * expected.abs().max()), rtol=1e-5)
