"""Llama 3.3: its one size, which is Llama 3.1's of 70B with other weights."""

from torchpipe._not_yet import refusing
from torchpipe.models.llama3_1 import LLAMA3_1_70B, llama3_1_70b, lora_llama3_1_70b

# https://huggingface.co/meta-llama/Llama-3.3-70B-Instruct/blob/main/config.json
LLAMA3_3_70B = LLAMA3_1_70B

llama3_3_70b = llama3_1_70b
"""Builds Llama 3.3 70B with fresh weights."""

lora_llama3_3_70b = lora_llama3_1_70b
"""Builds Llama 3.3 70B with adapters; see :func:`~torchpipe.models.lora.build_lora_decoder`."""

__getattr__ = refusing(__name__)
