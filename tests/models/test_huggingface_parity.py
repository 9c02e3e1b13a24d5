"""Logits equal those of the transformers library on the same weights, however the tokens are read."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from torchpipe.data import padded_collate_packed, padded_collate_sft
from torchpipe.data.packing.masks import PackedMaskKind
from torchpipe.models import DecoderConfig, RopeScaling, build_decoder
from torchpipe.models.generate import generate
from torchpipe.modules import TransformerDecoder, local_kv_cache

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
SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "num_layers": 3,
    "num_heads": 4,
    "num_kv_heads": 2,
    "embed_dim": 32,
    "intermediate_dim": 48,
    "max_seq_len": 256,
    "rope_base": 10_000.0,
    "norm_eps": 1e-5,
}


def scaling(scale_factor: float) -> RopeScaling:
    return RopeScaling(scale_factor=scale_factor, low_freq_factor=1.0, high_freq_factor=4.0, old_context_len=64)


def changed(**changes: Any) -> DecoderConfig:
    return DecoderConfig(**{**SIZES, **changes})


CONFIGS = {
    "llama3": changed(),
    "llama3_1": changed(rope_scaling=scaling(8.0)),
    "llama3_2": changed(rope_scaling=scaling(32.0), tied_embeddings=True),
    "heads wider than the embedding": changed(head_dim=16, rope_scaling=scaling(8.0)),
    "one key/value head": changed(num_kv_heads=1, head_dim=6, tied_embeddings=True),
    "as many key/value heads": changed(num_kv_heads=4),
}
LENS = [[5, 40, 1, 82], [128], [64, 60, 4]]


def huggingface_state(model: TransformerDecoder, config: DecoderConfig) -> dict[str, torch.Tensor]:
    state = {}
    for name, tensor in model.state_dict().items():
        if name.startswith("layers."):
            _, layer, rest = name.split(".", 2)
            if rest in ("attn.q_proj.weight", "attn.k_proj.weight"):
                # Neighbouring features are a pair here; there, feature i and feature i + head_dim / 2.
                pairs = tensor.unflatten(0, (-1, config.features_per_head // 2, 2))
                tensor = pairs.transpose(1, 2).reshape(tensor.shape)
            state[f"model.layers.{layer}.{NAMES[rest.rpartition('.')[0]]}.weight"] = tensor
        else:
            whole = {
                "tok_embeddings.weight": "model.embed_tokens",
                "norm.scale": "model.norm",
                "output.weight": "lm_head",
            }
            state[f"{whole[name]}.weight"] = tensor
    if config.tied_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    return state


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A decoder and transformers' own with the same weights."""

    model: TransformerDecoder
    oracle: Callable[..., Any]

    def expected(self, tokens: torch.Tensor, **options: Any) -> torch.Tensor:
        """The oracle's logits [b, s, v] of tokens [b, s]."""
        return self.oracle(input_ids=tokens, **options).logits


@pytest.fixture(params=CONFIGS, scope="module")
def pair(request: pytest.FixtureRequest, oracle_file) -> Pair:
    oracle_file("transformers", "__init__.py")
    config = CONFIGS[request.param]
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": config.rope_base}
    if config.rope_scaling is not None:
        rope |= {
            "rope_type": "llama3",
            "factor": config.rope_scaling.scale_factor,
            "low_freq_factor": config.rope_scaling.low_freq_factor,
            "high_freq_factor": config.rope_scaling.high_freq_factor,
            "original_max_position_embeddings": config.rope_scaling.old_context_len,
        }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import LlamaConfig, LlamaForCausalLM

        oracle = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=config.vocab_size,
                hidden_size=config.embed_dim,
                intermediate_size=config.intermediate_dim,
                num_hidden_layers=config.num_layers,
                num_attention_heads=config.num_heads,
                num_key_value_heads=config.num_kv_heads,
                head_dim=config.features_per_head,
                max_position_embeddings=config.max_seq_len,
                rms_norm_eps=config.norm_eps,
                tie_word_embeddings=config.tied_embeddings,
                rope_parameters=rope,
            )
        ).eval()
    torch.manual_seed(0)
    model = build_decoder(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.2)
    oracle.load_state_dict(huggingface_state(model, config), strict=True)
    return Pair(model=model, oracle=oracle)


def random_tokens(num_rows: int, num_tokens: int) -> torch.Tensor:
    return torch.randint(0, 64, (num_rows, num_tokens), generator=torch.Generator().manual_seed(1))


def assert_equal(logits: torch.Tensor, expected: torch.Tensor) -> None:
    assert float((logits - expected).norm() / expected.norm()) < 1e-5
    torch.testing.assert_close(logits, expected, atol=float(1e-5 * expected.abs().max()), rtol=1e-5)


@torch.no_grad()
def test_logits_of_whole_rows(pair: Pair) -> None:
    tokens = random_tokens(2, 200)
    assert_equal(pair.model(tokens), pair.expected(tokens))


@torch.no_grad()
def test_logits_of_padded_rows(pair: Pair) -> None:
    rows = [random_tokens(1, length)[0].tolist() for length in (7, 90, 33)]
    batch = padded_collate_sft([{"tokens": row, "labels": row} for row in rows], padding_idx=63)
    logits = pair.model(batch["tokens"])
    is_text = torch.arange(90) < torch.tensor([[7], [90], [33]])
    oracles = pair.expected(batch["tokens"], attention_mask=is_text.long())
    assert_equal(logits[is_text], oracles[is_text])
    for row, row_logits in zip(rows, logits, strict=True):
        assert_equal(row_logits[: len(row)], pair.expected(torch.tensor([row]))[0])


@pytest.mark.parametrize("mask", ["dense", "ids", "varlen"])
@torch.no_grad()
def test_logits_of_packed_rows_are_those_of_each_document_alone(pair: Pair, mask: PackedMaskKind) -> None:
    rows = random_tokens(len(LENS), 128)
    samples = [
        {
            "tokens": row,
            "labels": row,
            "input_pos": torch.cat([torch.arange(length) for length in lens]),
            "seq_lens": torch.tensor(lens),
        }
        for row, lens in zip(rows, LENS, strict=True)
    ]
    batch = padded_collate_packed(samples, mask=mask)
    batch.pop("labels")
    logits = pair.model(**batch)
    for row, row_logits, lens in zip(rows, logits, LENS, strict=True):
        for document, got in zip(row.split(lens), row_logits.split(lens), strict=True):
            assert_equal(got, pair.expected(document.unsqueeze(0))[0])


@pytest.mark.parametrize("lens", [[1] * 70, [50] + [1] * 20, [20, 30, 1, 19]], ids=["tokens", "prompt", "parts"])
@torch.no_grad()
def test_logits_of_decoding_with_key_value_caches(pair: Pair, lens: list[int]) -> None:
    tokens = random_tokens(2, 70)
    with local_kv_cache(pair.model, batch_size=2, device="cpu", dtype=torch.float32, decoder_max_seq_len=70):
        logits = torch.cat([pair.model(part) for part in tokens.split(lens, dim=1)], dim=1)
    assert_equal(logits, pair.expected(tokens))


@torch.no_grad()
def test_greedy_replies(pair: Pair) -> None:
    tokens = [3, 14, 15]
    reply = generate(pair.model, tokens, max_new_tokens=30)
    for _ in range(30):
        tokens.append(int(pair.expected(torch.tensor([tokens]))[0, -1].argmax()))
    assert reply == tokens[3:]
