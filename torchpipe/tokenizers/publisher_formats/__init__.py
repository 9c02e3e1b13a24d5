"""The rows of the table that write what publishers' own code and templates write."""

from torchpipe.tokenizers.chat_format import ChatFormat
from torchpipe.tokenizers.publisher_formats.mistral import MISTRAL_FORMATS

PUBLISHER_FORMATS: tuple[ChatFormat, ...] = (*MISTRAL_FORMATS,)
"""Every row with a layout."""
