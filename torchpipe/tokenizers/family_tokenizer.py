"""The constructor that families with control tokens around each message share."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from torchpipe.tokenizers.chat_format import ChatFormat
from torchpipe.tokenizers.files import open_backend
from torchpipe.tokenizers.model_tokenizer import ChatFormatTokenizer, PromptTemplateLike
from torchpipe.tokenizers.render import MaskPolicy


class FamilyTokenizer(ChatFormatTokenizer):
    """A tokenizer of one file, in the format that a subclass names as ``chat_format_row``.

    Args:
        path: the tokenizer file.
        special_tokens: ids of the control tokens by text; None takes those of ``path``, or numbers them from the end of
            the ordinary vocabulary, as the family's published file does.
        max_seq_len, prompt_template, truncation_type, mask_policy: see
            :class:`~torchpipe.tokenizers.ChatFormatTokenizer`.

    Raises:
        SourceError: the file is missing.
        TokenizerError: the file is not of this family.
    """

    chat_format_row: ClassVar[ChatFormat]

    def __init__(
        self,
        path: str,
        special_tokens: Mapping[str, int] | None = None,
        max_seq_len: int | None = None,
        prompt_template: PromptTemplateLike = None,
        truncation_type: Literal["left", "right"] = "right",
        *,
        mask_policy: MaskPolicy = "message",
    ) -> None:
        super().__init__(
            open_backend(path, self.chat_format_row),
            self.chat_format_row,
            special_tokens=special_tokens,
            max_seq_len=max_seq_len,
            prompt_template=prompt_template,
            truncation_type=truncation_type,
            mask_policy=mask_policy,
        )
