"""Llama 3.2: the text models' sizes. Their output projection is the token embedding's weight."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from torchpipe._not_yet import refusing
from torchpipe.models.build import build_decoder
from torchpipe.models.config import DecoderConfig
from torchpipe.models.llama import llama, lora_llama, rope_scaling
from torchpipe.models.lora import build_lora_decoder
from torchpipe.modules import TransformerDecoder

LLAMA3_2_ROPE_SCALING = rope_scaling(32.0)

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


def llama3_2_of(config: DecoderConfig, tie_word_embeddings: bool = True) -> TransformerDecoder:
    """A decoder with fresh weights; False gives the output projection a weight of its own."""
    return build_decoder(replace(config, tied_embeddings=tie_word_embeddings))


def lora_llama3_2_of(
    config: DecoderConfig,
    lora_attn_modules: Sequence[str],
    apply_lora_to_mlp: bool = False,
    apply_lora_to_output: bool = False,
    lora_rank: int = 8,
    lora_alpha: float = 16,
    lora_dropout: float = 0.0,
    use_dora: bool = False,
    quantize_base: bool = False,
    tie_word_embeddings: bool = True,
) -> TransformerDecoder:
    """As :func:`~torchpipe.models.lora.build_lora_decoder`; False gives the output projection a weight of its own."""
    return build_lora_decoder(
        replace(config, tied_embeddings=tie_word_embeddings),
        lora_attn_modules,
        apply_lora_to_mlp,
        apply_lora_to_output,
        lora_rank,
        lora_alpha,
        lora_dropout,
        use_dora,
        quantize_base,
    )


llama3_2 = partial(llama, scale_factor=32.0, tie_word_embeddings=True)
"""Builds a Llama 3.2 of any size; see :func:`~torchpipe.models.llama.llama`."""

lora_llama3_2 = partial(lora_llama, scale_factor=32.0, tie_word_embeddings=True)
"""Builds a Llama 3.2 of any size with adapters; see :func:`~torchpipe.models.llama.lora_llama`."""

llama3_2_1b = partial(llama3_2_of, LLAMA3_2_1B)
"""Builds Llama 3.2 1B with fresh weights."""

llama3_2_3b = partial(llama3_2_of, LLAMA3_2_3B)
"""Builds Llama 3.2 3B with fresh weights."""

lora_llama3_2_1b = partial(lora_llama3_2_of, LLAMA3_2_1B)
"""Builds Llama 3.2 1B with adapters; see :func:`~torchpipe.models.lora.build_lora_decoder`."""

lora_llama3_2_3b = partial(lora_llama3_2_of, LLAMA3_2_3B)
"""Builds Llama 3.2 3B with adapters; see :func:`~torchpipe.models.lora.build_lora_decoder`."""

__getattr__ = refusing(__name__)
