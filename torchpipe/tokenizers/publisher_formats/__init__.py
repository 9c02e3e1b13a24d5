"""The rows of the table that write what publishers' own code and templates write."""

from torchpipe.tokenizers.chat_format import ChatFormat
from torchpipe.tokenizers.publisher_formats.deepseek import DEEPSEEK_V3_1
from torchpipe.tokenizers.publisher_formats.harmony import GPT_OSS
from torchpipe.tokenizers.publisher_formats.llama import LLAMA_FORMATS
from torchpipe.tokenizers.publisher_formats.mistral import MISTRAL_FORMATS
from torchpipe.tokenizers.publisher_formats.plain_turns import PLAIN_FORMATS
from torchpipe.tokenizers.publisher_formats.qwen import QWEN_FORMATS

__all__ = ["PUBLISHER_FORMATS"]

PUBLISHER_FORMATS: tuple[ChatFormat, ...] = (
    *MISTRAL_FORMATS,
    GPT_OSS,
    *LLAMA_FORMATS,
    *QWEN_FORMATS,
    DEEPSEEK_V3_1,
    *PLAIN_FORMATS,
)
"""Every row with a layout."""
