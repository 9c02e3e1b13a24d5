"""The constructor that families with control tokens around each message share, and their messages one by one."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from torchpipe.data.messages import Message
from torchpipe.data.train_on import TrainOnLike
from torchpipe.tokenizers.chat_format import ChatFormat
from torchpipe.tokenizers.files import open_backend
from torchpipe.tokenizers.model_tokenizer import ChatFormatTokenizer, PromptTemplateLike
from torchpipe.tokenizers.render import Kind, MaskPolicy, render

_START = (Kind.HEADER,)
_END = (Kind.CALL_SUFFIX, Kind.TURN_END, Kind.SEPARATOR)


class FamilyTokenizer(ChatFormatTokenizer):
    """A tokenizer of one file, in the format that a subclass names as ``chat_format_row``.

    Args:
        path: the tokenizer file.
        special_tokens: ids of the control tokens by text; None takes those of ``path``, or numbers them from the end of
            the ordinary vocabulary, as the family's published file does.
        max_seq_len, prompt_template, truncation_type, mask_policy, train_on: see
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
        train_on: TrainOnLike = None,
    ) -> None:
        super().__init__(
            open_backend(path, self.chat_format_row),
            self.chat_format_row,
            special_tokens=special_tokens,
            max_seq_len=max_seq_len,
            prompt_template=prompt_template,
            truncation_type=truncation_type,
            mask_policy=mask_policy,
            train_on=train_on,
        )

    def tokenize_message(
        self, message: Message, *, add_start_tokens: bool = True, add_end_tokens: bool = True
    ) -> list[int]:
        """Ids of one message as it stands in a conversation, without what starts and ends the document.

        The prompt template is not applied, and nothing is cut.

        Args:
            message: the message.
            add_start_tokens: False leaves its header out.
            add_end_tokens: False leaves it open: without the end of its turn.

        Raises:
            DataError: the format has no place for its role or its images.
        """
        left_out = (() if add_start_tokens else _START) + (() if add_end_tokens else _END)
        return [
            token_id
            for kind, index, token_ids in render([message], self._encoder)
            if index == 0 and kind not in left_out
            for token_id in token_ids
        ]
