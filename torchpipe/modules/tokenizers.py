"""torchtune's older path of the tokenizers of plain text and of what goes with them."""

from torchpipe.data.protocols import BaseTokenizer, ModelTokenizer
from torchpipe.tokenizers.base_tokenizers import (
    GPT2BaseTokenizer,
    HuggingFaceBaseTokenizer,
    SentencePieceBaseTokenizer,
    TikTokenBaseTokenizer,
    parse_hf_tokenizer_json,
)
from torchpipe.tokenizers.plain_turns import tokenize_messages_no_special_tokens

__all__ = [
    "BaseTokenizer",
    "GPT2BaseTokenizer",
    "HuggingFaceBaseTokenizer",
    "ModelTokenizer",
    "SentencePieceBaseTokenizer",
    "TikTokenBaseTokenizer",
    "parse_hf_tokenizer_json",
    "tokenize_messages_no_special_tokens",
]
