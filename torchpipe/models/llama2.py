"""Llama 2: the tokenizer and its prompt template."""

from collections.abc import Sequence
from typing import Any, Literal

from torchpipe._not_yet import refusing
from torchpipe.data.messages import Message, Role
from torchpipe.data.train_on import TrainOnLike
from torchpipe.errors import DataError
from torchpipe.tokenizers import ChatFormat, ChatFormatTokenizer, MaskPolicy, PromptTemplateLike, open_backend
from torchpipe.tokenizers.families import LLAMA2

# https://github.com/meta-llama/llama/blob/main/llama/generation.py (Llama 2 Community Licence): text, not control
# tokens.
_TEXTS: dict[Role, tuple[str, str]] = {
    "system": ("<<SYS>>\n", "\n<</SYS>>\n\n"),
    "user": ("[INST] ", " [/INST] "),
    "assistant": ("", ""),
    "ipython": ("", ""),
    "tool": ("", ""),
}


class Llama2ChatTemplate:
    """Llama 2's marks around a conversation: ``[INST]`` for the user, and the system's text in the first user turn.

    >>> chat = [Message("system", "Be kind."), Message("user", "Hi"), Message("assistant", "Hello")]
    >>> [message.text_content for message in Llama2ChatTemplate()(chat)]
    ['[INST] <<SYS>>\\nBe kind.\\n<</SYS>>\\n\\nHi [/INST] ', 'Hello']
    """

    template = _TEXTS

    def __call__(self, messages: list[Message], inference: bool = False) -> list[Message]:
        """New messages; the given ones stay as they are. Results of calls stay without marks.

        Raises:
            DataError: no user turn follows a system message.
        """
        written: list[Message] = []
        system: list[dict[str, Any]] = []
        for message in messages:
            content = [*_part(self.template[message.role][0]), *message.content, *_part(self.template[message.role][1])]
            if message.role == "system":
                system += content
                continue
            if message.role == "user" and system:
                content[1:1] = system
                system = []
            written.append(message.with_content(content))
        if system:
            raise DataError(
                "The system message stands in the user turn after it in this format, and there is none. Drop the row "
                "with a filter_fn."
            )
        return written


def _part(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "content": text}] if text else []


class Llama2Tokenizer(ChatFormatTokenizer):
    """The tokenizer of Llama 2: each exchange between ``<s>`` and ``</s>``, marked by :class:`Llama2ChatTemplate`.

    Args:
        path: the published ``tokenizer.model``, a SentencePiece model.
        max_seq_len, prompt_template, truncation_type, mask_policy, train_on: see
            :class:`~torchpipe.tokenizers.ChatFormatTokenizer`.

    Raises:
        SourceError: the file is missing.
        TokenizerError: the file is not of this form.
    """

    chat_format_row: ChatFormat = LLAMA2

    def __init__(
        self,
        path: str,
        max_seq_len: int | None = None,
        prompt_template: PromptTemplateLike = Llama2ChatTemplate(),  # noqa: B008  # it holds no state
        truncation_type: Literal["left", "right"] = "right",
        *,
        mask_policy: MaskPolicy = "message",
        train_on: TrainOnLike = None,
    ) -> None:
        super().__init__(
            open_backend(path, self.chat_format_row),
            self.chat_format_row,
            max_seq_len=max_seq_len,
            prompt_template=prompt_template,
            truncation_type=truncation_type,
            mask_policy=mask_policy,
            train_on=train_on,
        )

    def decode(self, token_ids: Sequence[int], truncate_at_eos: bool = False, skip_special_tokens: bool = True) -> str:
        """Text of ids: of all exchanges, unless it is to stop at the end of the first."""
        return super().decode(token_ids, truncate_at_eos, skip_special_tokens)


def llama2_tokenizer(
    path: str,
    max_seq_len: int | None = None,
    prompt_template: PromptTemplateLike = "torchpipe.models.llama2.Llama2ChatTemplate",
    truncation_type: Literal["left", "right"] = "right",
    *,
    mask_policy: MaskPolicy = "message",
    train_on: TrainOnLike = None,
) -> Llama2Tokenizer:
    """The tokenizer of Llama 2; see :class:`Llama2Tokenizer`.

    Args:
        path: the published ``tokenizer.model``, a SentencePiece model.
        max_seq_len: the most tokens a sample may have; None: no limit.
        prompt_template: a dotted name to call, a table of role to (before, after), a template, or None for bare text.
        truncation_type: the side that is cut.
        mask_policy: ``"message"`` or ``"sampled"``.
        train_on: which parts of a trained message count; None: all.
    """
    return Llama2Tokenizer(
        path, max_seq_len, prompt_template, truncation_type, mask_policy=mask_policy, train_on=train_on
    )


__getattr__ = refusing(__name__)
