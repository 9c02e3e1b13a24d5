"""Gemma: the tokenizer, and its turns as a prompt template."""

from typing import Literal

from torchpipe._not_yet import refusing
from torchpipe.data.messages import Message, Role
from torchpipe.data.prompt_templates import prompt_template as as_prompt_template
from torchpipe.data.train_on import TrainOnLike
from torchpipe.errors import DataError
from torchpipe.models.llama2 import Llama2Tokenizer
from torchpipe.tokenizers import MaskPolicy, PromptTemplateLike
from torchpipe.tokenizers.families import GEMMA, GEMMA_TURNS

_TEXTS: dict[Role, tuple[str, str]] = {}


class GemmaChatTemplate:
    """Gemma's turns: ``<start_of_turn>role``, the text, ``<end_of_turn>``, as its instruction-tuned models have them.

    The marks are control tokens: :class:`GemmaTokenizer` writes them by id when it is given this template. The template
    itself changes one thing: the system's text goes in front of the first user's, with an empty line between, since
    the format has no system turn.

    >>> chat = [Message("system", "Be kind."), Message("user", "Hi"), Message("assistant", "Hello")]
    >>> [message.text_content for message in GemmaChatTemplate()(chat)]
    ['Be kind.\\n\\nHi', 'Hello']
    """

    template = _TEXTS

    def __call__(self, messages: list[Message], inference: bool = False) -> list[Message]:
        """New messages without a system message; the given ones stay as they are.

        Raises:
            DataError: no user turn follows a system message.
        """
        if not messages or messages[0].role != "system":
            return list(messages)
        if len(messages) < 2 or messages[1].role != "user":
            raise DataError(
                "The system message stands in the user turn after it in this format, and there is none. Drop the row "
                "with a filter_fn."
            )
        system, user = messages[:2]
        text = f"{system.text_content}\n\n{user.text_content.strip()}"
        images = [part for part in user.content if part["type"] != "text"]
        content = [*images, {"type": "text", "content": text}]
        return [user.with_content(content), *messages[2:]]


class GemmaTokenizer(Llama2Tokenizer):
    """The tokenizer of Gemma.

    Without a template a conversation is its bare text: the user's and the assistant's between ``<bos>`` and ``<eos>``.
    With ``prompt_template="torchpipe.models.gemma.GemmaChatTemplate"`` it has the turns of the instruction-tuned
    models.

    Args:
        path: the published ``tokenizer.model``, a SentencePiece model.
        max_seq_len, prompt_template, truncation_type, mask_policy, train_on: see
            :class:`~torchpipe.tokenizers.ChatFormatTokenizer`.

    Raises:
        SourceError: the file is missing.
        TokenizerError: the file is not of this form, or has no turn tokens and the template asks for them.
    """

    def __init__(
        self,
        path: str,
        max_seq_len: int | None = None,
        prompt_template: PromptTemplateLike = None,
        truncation_type: Literal["left", "right"] = "right",
        *,
        mask_policy: MaskPolicy = "message",
        train_on: TrainOnLike = None,
    ) -> None:
        template = as_prompt_template(prompt_template)
        self.chat_format_row = GEMMA_TURNS if isinstance(template, GemmaChatTemplate) else GEMMA
        super().__init__(path, max_seq_len, template, truncation_type, mask_policy=mask_policy, train_on=train_on)


def gemma_tokenizer(
    path: str,
    max_seq_len: int | None = None,
    prompt_template: PromptTemplateLike = None,
    truncation_type: Literal["left", "right"] = "right",
    *,
    mask_policy: MaskPolicy = "message",
    train_on: TrainOnLike = None,
) -> GemmaTokenizer:
    """The tokenizer of Gemma; see :class:`GemmaTokenizer`.

    Args:
        path: the published ``tokenizer.model``, a SentencePiece model.
        max_seq_len: the most tokens a sample may have; None: no limit.
        prompt_template: None for bare text, ``"torchpipe.models.gemma.GemmaChatTemplate"`` for the turns of the
            instruction-tuned models, or another dotted name, table of role to (before, after), or template.
        truncation_type: the side that is cut.
        mask_policy: ``"message"`` or ``"sampled"``.
        train_on: which parts of a trained message count; None: all.
    """
    return GemmaTokenizer(
        path, max_seq_len, prompt_template, truncation_type, mask_policy=mask_policy, train_on=train_on
    )


__getattr__ = refusing(__name__)
