"""Rows of conversations to sequences, for supervised fine-tuning."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from torchpipe._sentences import printable
from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.loss_weights import are_weighted
from torchpipe.data.masking import MaskingStrategy, mask_messages
from torchpipe.data.messages import Message
from torchpipe.data.messages_tokenizer import MessagesTokenizer, as_model_transform
from torchpipe.data.openai_dicts import from_openai
from torchpipe.data.overflow import Overflow, OverflowPolicy, StopToken, TruncationType, overflow_policy
from torchpipe.data.sample_transforms import SFTTransform
from torchpipe.errors import ColumnError, ConfigError, DataError, MessageError
from torchpipe.pipeline.chat.first_sample import FirstSample
from torchpipe.pipeline.chat.rendered import RenderedChat
from torchpipe.pipeline.chat.renderers import RendererConfig
from torchpipe.pipeline.chat.templated import TemplatedChat, check_alternation
from torchpipe.pipeline.control_text import check_allows
from torchpipe.pipeline.functions import as_function
from torchpipe.pipeline.processors import Outcome, SampleProcessor
from torchpipe.pipeline.sequences import TextSequence, joined_documents, sequence_of, shifted_sequence
from torchpipe.pipeline.types import DatasetBuildContext


class ChatProcessor(SampleProcessor):
    """A conversation as tokens, of which the assistant's are trained.

    Who writes it, and proves what is trained:

    ============================================  ================================================================
    the context's tokenizer                       what it takes
    ============================================  ================================================================
    one of torchpipe's (``tokenize_messages``)    all that its format has a place for: several turns, tools, calls,
                                                  reasoning; what can't be proved is refused, or split off into
                                                  documents, as its ``on_unproved`` says
    any that a ``renderer`` takes                 the same, as the ``renderers`` package writes it
    torchtitan's (``apply_chat_template``)        turns of the user and the assistant, whose beginnings are compared
    ============================================  ================================================================

    A row that becomes several documents is one sequence, whose positions begin anew with each. A row that is longer
    than ``max_context_length`` (it has one token more, the last target) is left out, unless ``overflow`` says
    otherwise. The text of the first sample that a config makes is printed, once in a run of the program.

    Args:
        config: its settings.
        context: its tokenizer and ``max_context_length``.

    Raises:
        ConfigError: the settings don't go together, or with the tokenizer.
    """

    deterministic: ClassVar[bool | None] = True
    can_be_read_ahead: ClassVar[bool] = True
    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"context", "_first"})

    @dataclass(kw_only=True, slots=True)
    class Config(SampleProcessor.Config):
        """The settings.

        Attributes:
            messages_fn: a row to its messages, as :class:`~torchpipe.data.Message` s or OpenAI's dicts; or to
                ``{"messages": ..., "tools": ...}``, as the message transforms of :mod:`torchpipe.data` give it. A
                function, or its dotted name.
            tools_fn: a row to its tools; None: it has none but those that ``messages_fn`` gives.
            renderer: writes conversations in place of the tokenizer's own format:
                :class:`~torchpipe.pipeline.RenderersLibraryConfig`.
            masking_strategy: which messages are trained; what a message's own flags say (``train``, ``masked``, a
                ``weight`` of 0) wins.
            overflow, truncation_type, stop_token: what becomes of a row that is too long, as in
                :mod:`torchpipe.data.overflow`.
            allow_control_text: whether a row may spell control tokens where the tokenizer would make one of it. False:
                such a row is an error. Torchpipe's tokenizers make none in any case.

        Raises:
            ConfigError: there is no such function.
        """

        function_arguments: ClassVar[tuple[str, ...]] = ("messages_fn", "tools_fn")
        messages_fn: Callable[[Any], Any]
        tools_fn: Callable[[Any], Any] | None = None
        renderer: RendererConfig | None = None
        masking_strategy: str = MaskingStrategy.TRAIN_ON_ASSISTANT.value
        overflow: Overflow = "drop"
        truncation_type: TruncationType | None = None
        stop_token: StopToken | None = None
        allow_control_text: bool = False

        def __post_init__(self) -> None:
            self.messages_fn = as_function(self.messages_fn, "messages_fn")
            if self.tools_fn is not None:
                self.tools_fn = as_function(self.tools_fn, "tools_fn")
            check_allows(self.allow_control_text)
            mask_messages([], self.masking_strategy)  # which says whether there is such a one

    def __init__(self, config: Config, *, context: DatasetBuildContext) -> None:
        super().__init__(config, context=context)
        tokenizer = self.tokenizer = context.tokenizer
        self._first = FirstSample(config, tokenizer)
        self._is_templated = False
        if config.renderer is not None:
            writer: Any = RenderedChat(config.renderer, tokenizer, allow_control_text=config.allow_control_text)
            if not writer.one_sample_a_row and config.overflow in ("truncate", "split"):
                raise ConfigError(
                    f"overflow={config.overflow!r} cuts a conversation, and this renderer makes several documents of "
                    "it. Set overflow to 'drop' or 'error', or thinking_retention='all' in the renderer's config."
                )
        elif callable(getattr(tokenizer, "tokenize_messages", None)):
            writer = as_model_transform(tokenizer)
        elif callable(getattr(tokenizer, "apply_chat_template", None)):
            if config.tools_fn is not None:
                raise ConfigError(
                    "tools_fn requires a renderer, or a tokenizer of torchpipe's: apply_chat_template of "
                    f"{type(tokenizer).__name__} writes messages alone."
                )
            writer = TemplatedChat(tokenizer, allow_control_text=config.allow_control_text)
            self._is_templated = True
        else:
            raise ConfigError(
                f"ChatProcessor needs a tokenizer that writes conversations, and the context has a "
                f"{type(tokenizer).__name__}. Give one of torchpipe's, or one with apply_chat_template."
            )
        self._max_context_length = context.max_context_length
        self._tools_are_lost = self._is_templated or isinstance(writer, MessagesTokenizer)
        self._transform = SFTTransform(None, writer, overflow=_policy(config, context.max_context_length))

    def __call__(self, sample: Any, rng: np.random.Generator) -> TextSequence | None:
        """The row's sequence; None where there is none.

        Raises:
            DataError: the row is no conversation that the format has a place for, or can't be proved.
        """
        return self.outcome(sample, rng).value

    def outcome(self, sample: Any, rng: np.random.Generator) -> Outcome:
        """The row's sequence, or why there is none."""
        row = self.conversation(sample)
        if self._is_templated:
            check_alternation(row["messages"])
        fitted = self._transform.fitted(row, labels=False)
        if fitted.left_out == "too_long" and self.config.overflow == "error":
            raise DataError(
                f"{fitted.num_tokens} tokens are more than max_context_length={self._max_context_length} and the last "
                "target. Raise it, set overflow to 'drop', 'truncate' or 'split', or leave the row out with "
                "pre_filters.",
                reason="too_long",
            )
        if not fitted.samples:
            return Outcome(None, fitted.left_out)
        documents = [_document(made) for made in fitted.samples]
        sequence = joined_documents([document for document in documents if len(document.input_ids)])
        if not (sequence.labels != IGNORE_INDEX).any():
            return Outcome(None, "nothing_trained")
        self._first.tell(lambda: self._line_of(sequence))
        return Outcome(sequence)

    @property
    def transform(self) -> SFTTransform:
        """What makes samples of :meth:`conversation`."""
        return self._transform

    def conversation(self, sample: Any) -> dict[str, Any]:
        """The row's messages, each masked or not, and its tools.

        Raises:
            DataError: it is no conversation, or has what a sequence or the tokenizer has no place for.
        """
        said = self.config.messages_fn(sample)
        row: dict[str, Any] = dict(said) if isinstance(said, Mapping) else {"messages": said}
        if "messages" not in row:
            raise ColumnError(
                f"messages_fn returned a table without 'messages': it has {sorted(row)}. It returns a list of messages."
            )
        messages = [_message(turn, index) for index, turn in enumerate(_listed(row["messages"]))]
        masked = [message.masked for message in messages]
        mask_messages(messages, self.config.masking_strategy)
        for message, was in zip(messages, masked, strict=True):
            message.masked = message.masked or was
        if are_weighted(messages):
            raise MessageError(
                "A message has a weight that is neither 0 nor 1, and a TextSequence has no place for it. Round it in "
                "messages_fn, or use the chat datasets of torchpipe.datasets, whose samples have loss_weights."
            )
        tools = row.get("tools") if self.config.tools_fn is None else self.config.tools_fn(sample)
        if tools and self._tools_are_lost:
            raise MessageError(
                f"The row has tools, and {'apply_chat_template' if self._is_templated else 'tokenize_messages'} of "
                f"{type(self.tokenizer).__name__} writes messages alone. Use a renderer, or a tokenizer of torchpipe's."
            )
        return {"messages": messages, **({"tools": tools} if tools else {})}

    def _line_of(self, sequence: TextSequence) -> str:
        tokens, trained = sequence.input_ids.tolist(), int((sequence.labels != IGNORE_INDEX).sum())
        return (
            f"ChatProcessor: the first sample has {len(tokens)} tokens, and {trained} trained labels: "
            f"{printable(_text_of(self.tokenizer, tokens))}"
        )


def _policy(config: ChatProcessor.Config, max_context_length: int) -> OverflowPolicy:
    """The policy for a row's tokens, of which the last is no input, but the last label."""
    policy = overflow_policy(
        None,
        # What is an error is told here, where it is known what the limit is called.
        "drop" if config.overflow == "error" else config.overflow,
        # The parts of a row that is split have a label each, the last of which is the next part's first token.
        max_seq_len=max_context_length + (config.overflow != "split"),
        truncation_type=config.truncation_type,
        stop_token=config.stop_token,
    )
    assert policy is not None
    return policy


def _listed(messages: Any) -> Sequence[Any]:
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise MessageError(f"messages_fn returned a {type(messages).__name__}. It returns a list of messages.")
    return messages


def _message(turn: Any, index: int) -> Message:
    """A message that may be changed: the row keeps its own."""
    return copy(turn) if isinstance(turn, Message) else from_openai(turn, index=index)


def _document(made: Mapping[str, Any]) -> TextSequence:
    """One document: a whole row, or a part of one, whose last token may have a label: the first of the next part."""
    return sequence_of(made) if "labels" in made else shifted_sequence(made["tokens"], made["mask"])


def _text_of(tokenizer: Any, tokens: list[int]) -> str:
    """The text of tokens; the ids, where the tokenizer only encodes."""
    if not hasattr(tokenizer, "decode"):
        return " ".join(map(str, tokens))
    decode = tokenizer.decode
    try:
        return decode(tokens, truncate_at_eos=False, skip_special_tokens=False)
    except TypeError:  # not one of torchpipe's
        return decode(tokens)
