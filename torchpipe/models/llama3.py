"""Llama 3: model sizes."""

from functools import partial

from torchpipe.models.build import build_decoder
from torchpipe.models.config import DecoderConfig

# https://huggingface.co/meta-llama/Meta-Llama-3-8B/blob/main/config.json
LLAMA3_8B = DecoderConfig(
    vocab_size=128_256,
    num_layers=32,
    num_heads=32,
    num_kv_heads=8,
    embed_dim=4096,
    intermediate_dim=14_336,
    max_seq_len=8192,
    rope_base=500_000.0,
    norm_eps=1e-5,
)

# https://huggingface.co/meta-llama/Meta-Llama-3-70B/blob/main/config.json
LLAMA3_70B = DecoderConfig(
    vocab_size=128_256,
    num_layers=80,
    num_heads=64,
    num_kv_heads=8,
    embed_dim=8192,
    intermediate_dim=28_672,
    max_seq_len=8192,
    rope_base=500_000.0,
    norm_eps=1e-5,
)

llama3_8b = partial(build_decoder, LLAMA3_8B)
"""Builds Llama 3 8B with fresh weights."""

llama3_70b = partial(build_decoder, LLAMA3_70B)
"""Builds Llama 3 70B with fresh weights."""
