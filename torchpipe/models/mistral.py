"""Mistral: the tokenizer and its prompt template."""

from typing import Literal

from torchpipe._not_yet import refusing
from torchpipe.data.messages import Message, Role
from torchpipe.data.prompt_templates import PromptTemplate
from torchpipe.data.train_on import TrainOnLike
from torchpipe.errors import DataError
from torchpipe.models.llama2 import Llama2Tokenizer
from torchpipe.tokenizers import ChatFormat, MaskPolicy, PromptTemplateLike
from torchpipe.tokenizers.families import MISTRAL

# https://huggingface.co/mistralai/Mistral-7B-Instruct-v0.1 (Apache-2.0): text, not control tokens, as in v0.1 and v0.2.
_TEXTS: dict[Role, tuple[str, str]] = {"user": ("[INST] ", " [/INST] ")}


class MistralChatTemplate(PromptTemplate):
    """Mistral's ``[INST]`` around the user's text, as in the Instruct models v0.1 and v0.2.

    >>> MistralChatTemplate()([Message("user", "Hi")])[0].text_content
    '[INST] Hi [/INST] '
    """

    def __init__(self) -> None:
        super().__init__(_TEXTS)

    def __call__(self, messages: list[Message], inference: bool = False) -> list[Message]:
        """New messages with the marks around them; the given ones stay as they are.

        Raises:
            DataError: there is a system message, which the format has no place for.
        """
        for index, message in enumerate(messages):
            if message.role == "system":
                raise DataError(
                    f"Message {index} is a 'system' message, and Mistral's format has no place for one. Put its text "
                    "into the first user message, or drop the row with a filter_fn."
                )
        return super().__call__(messages, inference)


class MistralTokenizer(Llama2Tokenizer):
    """The tokenizer of Mistral: each exchange between ``<s>`` and ``</s>``, marked by :class:`MistralChatTemplate`.

    Args:
        path: the published ``tokenizer.model``, a SentencePiece model.
        max_seq_len, prompt_template, truncation_type, mask_policy, train_on: see
            :class:`~torchpipe.tokenizers.ChatFormatTokenizer`.

    Raises:
        SourceError: the file is missing.
        TokenizerError: the file is not of this form.
    """

    chat_format_row: ChatFormat = MISTRAL

    def __init__(
        self,
        path: str,
        max_seq_len: int | None = None,
        prompt_template: PromptTemplateLike = MistralChatTemplate(),  # noqa: B008  # it holds no state
        truncation_type: Literal["left", "right"] = "right",
        *,
        mask_policy: MaskPolicy = "message",
        train_on: TrainOnLike = None,
    ) -> None:
        super().__init__(
            path, max_seq_len, prompt_template, truncation_type, mask_policy=mask_policy, train_on=train_on
        )


def mistral_tokenizer(
    path: str,
    max_seq_len: int | None = None,
    prompt_template: PromptTemplateLike = "torchpipe.models.mistral.MistralChatTemplate",
    truncation_type: Literal["left", "right"] = "right",
    *,
    mask_policy: MaskPolicy = "message",
    train_on: TrainOnLike = None,
) -> MistralTokenizer:
    """The tokenizer of Mistral; see :class:`MistralTokenizer`.

    Args:
        path: the published ``tokenizer.model``, a SentencePiece model.
        max_seq_len: the most tokens a sample may have; None: no limit.
        prompt_template: a dotted name to call, a table of role to (before, after), a template, or None for bare text.
        truncation_type: the side that is cut.
        mask_policy: ``"message"`` or ``"sampled"``.
        train_on: which parts of a trained message count; None: all.
    """
    return MistralTokenizer(
        path, max_seq_len, prompt_template, truncation_type, mask_policy=mask_policy, train_on=train_on
    )


__getattr__ = refusing(__name__)
