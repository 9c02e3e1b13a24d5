"""Text and conversations to token ids: back ends, chat formats, and the tokenizer class over both."""

from torchpipe.tokenizers.backend import Backend
from torchpipe.tokenizers.chat_format import ChatFormat, Control, Slot
from torchpipe.tokenizers.families import LLAMA3
from torchpipe.tokenizers.huggingface import HuggingFaceBackend
from torchpipe.tokenizers.model_tokenizer import ChatFormatTokenizer, open_backend, read_special_tokens
from torchpipe.tokenizers.tiktoken import TikTokenBackend

__all__ = [
    "LLAMA3",
    "Backend",
    "ChatFormat",
    "ChatFormatTokenizer",
    "Control",
    "HuggingFaceBackend",
    "Slot",
    "TikTokenBackend",
    "open_backend",
    "read_special_tokens",
]
