"""The rows of the table that write what publishers' own code and templates write."""

from torchpipe.tokenizers.chat_format import ChatFormat
from torchpipe.tokenizers.publisher_formats.harmony import GPT_OSS
from torchpipe.tokenizers.publisher_formats.mistral import MISTRAL_FORMATS

PUBLISHER_FORMATS: tuple[ChatFormat, ...] = (*MISTRAL_FORMATS, GPT_OSS)
"""Every row with a layout."""
