"""torchtune's path of the tokenizers of plain text, of the one of a model folder, and of what goes with them."""

from typing import TYPE_CHECKING

from torchpipe._reexport import lazily

if TYPE_CHECKING:
    from torchpipe.data.protocols import BaseTokenizer, ModelTokenizer
    from torchpipe.tokenizers.base_tokenizers import (
        GPT2BaseTokenizer,
        HuggingFaceBaseTokenizer,
        SentencePieceBaseTokenizer,
        TikTokenBaseTokenizer,
        parse_hf_tokenizer_json,
    )
    from torchpipe.tokenizers.hf_model_tokenizer import HuggingFaceModelTokenizer
    from torchpipe.tokenizers.plain_turns import tokenize_messages_no_special_tokens
else:
    __getattr__ = lazily(
        __name__,
        {
            "BaseTokenizer": "torchpipe.data.protocols",
            "GPT2BaseTokenizer": "torchpipe.tokenizers.base_tokenizers",
            "HuggingFaceBaseTokenizer": "torchpipe.tokenizers.base_tokenizers",
            "HuggingFaceModelTokenizer": "torchpipe.tokenizers.hf_model_tokenizer",
            "ModelTokenizer": "torchpipe.data.protocols",
            "SentencePieceBaseTokenizer": "torchpipe.tokenizers.base_tokenizers",
            "TikTokenBaseTokenizer": "torchpipe.tokenizers.base_tokenizers",
            "parse_hf_tokenizer_json": "torchpipe.tokenizers.base_tokenizers",
            "tokenize_messages_no_special_tokens": "torchpipe.tokenizers.plain_turns",
        },
    )

__all__ = [
    "BaseTokenizer",
    "GPT2BaseTokenizer",
    "HuggingFaceBaseTokenizer",
    "HuggingFaceModelTokenizer",
    "ModelTokenizer",
    "SentencePieceBaseTokenizer",
    "TikTokenBaseTokenizer",
    "parse_hf_tokenizer_json",
    "tokenize_messages_no_special_tokens",
]
