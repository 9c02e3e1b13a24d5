"""Llama 3.2: the text models' sizes. Their output projection is the token embedding's weight."""

from dataclasses import replace

from torchpipe.models.build import build_decoder
from torchpipe.models.config import DecoderConfig, RopeScaling
from torchpipe.modules import TransformerDecoder

LLAMA3_2_ROPE_SCALING = RopeScaling(scale_factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, old_context_len=8192)

# https://huggingface.co/meta-llama/Llama-3.2-1B/blob/main/config.json
LLAMA3_2_1B = DecoderConfig(
    vocab_size=128_256,
    num_layers=16,
    num_heads=32,
    num_kv_heads=8,
    embed_dim=2048,
    intermediate_dim=8192,
    head_dim=64,
    max_seq_len=131_072,
    rope_base=500_000.0,
    norm_eps=1e-5,
    rope_scaling=LLAMA3_2_ROPE_SCALING,
    tied_embeddings=True,
)

# https://huggingface.co/meta-llama/Llama-3.2-3B/blob/main/config.json
LLAMA3_2_3B = DecoderConfig(
    vocab_size=128_256,
    num_layers=28,
    num_heads=24,
    num_kv_heads=8,
    embed_dim=3072,
    intermediate_dim=8192,
    head_dim=128,
    max_seq_len=131_072,
    rope_base=500_000.0,
    norm_eps=1e-5,
    rope_scaling=LLAMA3_2_ROPE_SCALING,
    tied_embeddings=True,
)


def llama3_2_1b(tie_word_embeddings: bool = True) -> TransformerDecoder:
    """Llama 3.2 1B with fresh weights; False gives the output projection a weight of its own."""
    return build_decoder(replace(LLAMA3_2_1B, tied_embeddings=tie_word_embeddings))


def llama3_2_3b(tie_word_embeddings: bool = True) -> TransformerDecoder:
    """Llama 3.2 3B with fresh weights; False gives the output projection a weight of its own."""
    return build_decoder(replace(LLAMA3_2_3B, tied_embeddings=tie_word_embeddings))
