"""Llama 3.1: model sizes. Each is a Llama 3 with scaled rotary embeddings, for a context of 131,072 tokens."""

from dataclasses import replace
from functools import partial

from torchpipe._not_yet import refusing
from torchpipe.models.build import build_decoder
from torchpipe.models.config import DecoderConfig
from torchpipe.models.llama import llama, lora_llama, rope_scaling
from torchpipe.models.llama3 import LLAMA3_8B, LLAMA3_70B, lora_llama3_of
from torchpipe.models.lora import build_lora_decoder
from torchpipe.modules import Llama3ScaledRoPE as Llama3ScaledRoPE  # where torchtune has it too

LLAMA3_1_ROPE_SCALING = rope_scaling(8.0)

# https://huggingface.co/meta-llama/Llama-3.1-8B/blob/main/config.json
LLAMA3_1_8B = replace(LLAMA3_8B, max_seq_len=131_072, rope_scaling=LLAMA3_1_ROPE_SCALING)

# https://huggingface.co/meta-llama/Llama-3.1-70B/blob/main/config.json
LLAMA3_1_70B = replace(LLAMA3_70B, max_seq_len=131_072, rope_scaling=LLAMA3_1_ROPE_SCALING)

# https://huggingface.co/meta-llama/Llama-3.1-405B/blob/main/config.json
LLAMA3_1_405B = DecoderConfig(
    vocab_size=128_256,
    num_layers=126,
    num_heads=128,
    num_kv_heads=8,
    embed_dim=16_384,
    intermediate_dim=53_248,
    max_seq_len=131_072,
    rope_base=500_000.0,
    norm_eps=1e-5,
    rope_scaling=LLAMA3_1_ROPE_SCALING,
)

llama3_1 = partial(llama, scale_factor=8.0)
"""Builds a Llama 3.1 of any size; see :func:`~torchpipe.models.llama.llama`."""

lora_llama3_1 = partial(lora_llama, scale_factor=8.0)
"""Builds a Llama 3.1 of any size with adapters; see :func:`~torchpipe.models.llama.lora_llama`."""

llama3_1_8b = partial(build_decoder, LLAMA3_1_8B)
"""Builds Llama 3.1 8B with fresh weights."""

llama3_1_70b = partial(build_decoder, LLAMA3_1_70B)
"""Builds Llama 3.1 70B with fresh weights."""

llama3_1_405b = partial(build_decoder, LLAMA3_1_405B)
"""Builds Llama 3.1 405B with fresh weights."""

lora_llama3_1_8b = partial(build_lora_decoder, LLAMA3_1_8B)
"""Builds Llama 3.1 8B with adapters; see :func:`~torchpipe.models.lora.build_lora_decoder`."""

lora_llama3_1_70b = partial(build_lora_decoder, LLAMA3_1_70B)
"""Builds Llama 3.1 70B with adapters; see :func:`~torchpipe.models.lora.build_lora_decoder`."""

lora_llama3_1_405b = partial(lora_llama3_of, LLAMA3_1_405B)
"""Builds Llama 3.1 405B with adapters; see :func:`~torchpipe.models.lora.build_lora_decoder`."""

__getattr__ = refusing(__name__)
