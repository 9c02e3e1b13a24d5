"""Ids of single control tokens as attributes of a tokenizer, under torchtune's names."""

from torchpipe.errors import TokenizerError
from torchpipe.tokenizers.model_tokenizer import ChatFormatTokenizer


def control_id(text: str) -> property:
    """A property that is the id of a control token.

    Reading it raises a TokenizerError where the tokenizer has no such token.
    """

    def token_id(tokenizer: ChatFormatTokenizer) -> int:
        ids = tokenizer.special_tokens
        if text not in ids:
            raise TokenizerError(
                f"This tokenizer has no control token {text!r} among its {len(ids)}; its special_tokens lists them."
            )
        return ids[text]

    return property(token_id, doc=f"The id of ``{text}``.")
