"""Text and conversations to token ids: back ends, chat formats, and the tokenizer class over both."""

from typing import TYPE_CHECKING

from torchpipe._reexport import lazily
from torchpipe.tokenizers.backend import Backend
from torchpipe.tokenizers.backend_files import load_backend
from torchpipe.tokenizers.byte_level import GPT2_PATTERN, ByteLevelBackend
from torchpipe.tokenizers.chat_format import ChatFormat, Control, Slot
from torchpipe.tokenizers.chat_format_tokenizer import chat_format_tokenizer
from torchpipe.tokenizers.control_matcher import ControlMatcher, TokenFlags
from torchpipe.tokenizers.conversation import OnLost
from torchpipe.tokenizers.families import FAMILIES, LLAMA3
from torchpipe.tokenizers.family_tokenizer import FamilyTokenizer
from torchpipe.tokenizers.files import open_backend, read_special_tokens
from torchpipe.tokenizers.hf_files import HuggingFaceFiles, read_hf_files
from torchpipe.tokenizers.huggingface import HuggingFaceBackend
from torchpipe.tokenizers.model_tokenizer import ChatFormatTokenizer, PromptTemplateLike
from torchpipe.tokenizers.named_ids import control_id
from torchpipe.tokenizers.pieces import PieceEncoder, encode_pieces
from torchpipe.tokenizers.publisher_formats import PUBLISHER_FORMATS
from torchpipe.tokenizers.publisher_tokenizer import PublisherFormatTokenizer
from torchpipe.tokenizers.render import MaskPolicy
from torchpipe.tokenizers.sentencepiece import SentencePieceBackend
from torchpipe.tokenizers.tekken import TekkenBackend
from torchpipe.tokenizers.tiktoken import TikTokenBackend
from torchpipe.tokenizers.tokenized_conversation import TokenizedConversation

if TYPE_CHECKING:
    from torchpipe.tokenizers.chat_template import ChatTemplateTokenizer
    from torchpipe.tokenizers.hf_model_tokenizer import HuggingFaceModelTokenizer

__all__ = [
    "FAMILIES",
    "GPT2_PATTERN",
    "LLAMA3",
    "PUBLISHER_FORMATS",
    "Backend",
    "ByteLevelBackend",
    "ChatFormat",
    "ChatFormatTokenizer",
    "ChatTemplateTokenizer",
    "Control",
    "ControlMatcher",
    "FamilyTokenizer",
    "HuggingFaceBackend",
    "HuggingFaceFiles",
    "HuggingFaceModelTokenizer",
    "MaskPolicy",
    "OnLost",
    "PieceEncoder",
    "PromptTemplateLike",
    "PublisherFormatTokenizer",
    "SentencePieceBackend",
    "Slot",
    "TekkenBackend",
    "TikTokenBackend",
    "TokenFlags",
    "TokenizedConversation",
    "chat_format_tokenizer",
    "control_id",
    "encode_pieces",
    "load_backend",
    "open_backend",
    "read_hf_files",
    "read_special_tokens",
]

# Only those who use chat templates pay for loading jinja2.
__getattr__ = lazily(
    __name__,
    {
        "ChatTemplateTokenizer": "torchpipe.tokenizers.chat_template",
        "HuggingFaceModelTokenizer": "torchpipe.tokenizers.hf_model_tokenizer",
    },
)
