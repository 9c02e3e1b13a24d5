"""Rows with two answers, one of them preferred, into messages."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torchpipe.data.columns import refuse_no_row, resolve_column_map, text_cell
from torchpipe.data.masking import MaskingStrategy, resolve_masking_strategy
from torchpipe.data.messages import Message, Role
from torchpipe.data.named_columns import NamesColumns
from torchpipe.data.turns import as_system_prompt, finished, messages_in, messages_of, tools_of, with_system_of
from torchpipe.errors import ColumnError, DataError, located


class ChosenRejectedToMessages(NamesColumns):
    """A row with two conversations, lists of ``{"role": ..., "content": ...}`` turns, into two lists of messages.

    Each is read as :class:`~torchpipe.data.OpenAIToMessages` reads one, of text alone; a turn's own ``ipython`` and
    ``eot`` are taken. The two need not begin with the same turns.

    Args:
        train_on_input: deprecated, use ``masking_strategy``.
        column_map: the row's columns for ``chosen``, ``rejected`` and, optionally, ``tools`` and ``system``, which both
            conversations begin with; None: they have these names.
        new_system_prompt: the text of a system message that replaces the row's own; None: the row's stay.
        masking_strategy: which messages are trained on; None: the assistant's.

    Raises:
        ConfigError: an argument can't be used.

    Calling it raises a ColumnError when the row lacks a column or a turn lacks a key, and a DataError when a turn has
    an unknown role, or holds pictures or what a message has no place for.

    >>> row = {side: [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": answer}]
    ...        for side, answer in (("chosen", "2"), ("rejected", "3"))}
    >>> {side: messages[-1].text_content for side, messages in ChosenRejectedToMessages()(row).items()}
    {'chosen': '2', 'rejected': '3'}
    """

    optional_columns: ClassVar[Mapping[str, str]] = {"tools": "tools", "system": "system"}

    def __init__(
        self,
        train_on_input: bool | None = None,
        column_map: Mapping[str, str | None] | None = None,
        new_system_prompt: str | None = None,
        masking_strategy: str | MaskingStrategy | None = None,
    ) -> None:
        self.masking_strategy = resolve_masking_strategy(
            train_on_input, masking_strategy, default=MaskingStrategy.TRAIN_ON_ASSISTANT
        )
        self.column_map = resolve_column_map(
            column_map, required=("chosen", "rejected"), optional=self.optional_columns
        )
        self.new_system_prompt = as_system_prompt(new_system_prompt)

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """``{"chosen": [...], "rejected": [...]}``, and the row's ``tools``, where it has any."""
        sides = {side: self._messages(sample, side) for side in ("chosen", "rejected")}
        return {**sides, **tools_of(sample, self.column_map)}

    def _messages(self, row: Mapping[str, Any], side: str) -> list[Message]:
        _refuse_answer(row, self.column_map[side])
        try:
            messages = messages_of(row, self.column_map[side], side, style="openai", read_image=None, own_flags=True)
        except DataError as error:
            raise located(error, f"In {side!r}") from error.__cause__
        messages = with_system_of(row, self.column_map, messages)
        return finished(messages, self.new_system_prompt, self.masking_strategy)


def _refuse_answer(row: Mapping[str, Any], column: str) -> None:
    """Refuses a column that holds an answer alone, and no conversation.

    Raises:
        ColumnError: the sentence says which columns to name, or, of a text without a prompt, what reads a transcript.
    """
    refuse_no_row(row)
    held = row.get(column)
    has_prompt = row.get("prompt") is not None
    is_alone = isinstance(held, str | Mapping)
    if not is_alone and not (has_prompt and isinstance(held, list | tuple) and _begins_with_answer(held)):
        return
    if has_prompt:
        raise ColumnError(
            f"Column {column!r} holds an answer to the row's 'prompt', not a conversation. Name all three in "
            "column_map: {prompt: prompt, chosen: chosen, rejected: rejected}."
        )
    transcript = (
        " A transcript ('Human: ...', 'Assistant: ...') is read by the message_transform "
        "torchpipe.data.TranscriptPairToMessages."
    )
    raise ColumnError(
        f"Column {column!r} holds {'a text' if isinstance(held, str) else 'one turn'}, not a conversation. If it "
        "answers a prompt in another column, name all three in column_map: {prompt: ..., chosen: ..., rejected: ...}."
        + (transcript if isinstance(held, str) else "")
    )


def _begins_with_answer(turns: Sequence[Any]) -> bool:
    return len(turns) == 1 or (len(turns) > 1 and isinstance(turns[0], Mapping) and turns[0].get("role") == "assistant")


class PromptedPairToMessages(NamesColumns):
    """A row with a prompt and two answers to it, into two lists of messages.

    Each of the three columns holds a text, a turn, or a list of turns, of OpenAI's or ShareGPT's layout; a text is what
    the user says in the prompt, and what the assistant says in an answer. Answers that begin with the prompt are whole
    conversations already.

    Args:
        train_on_input: deprecated, use ``masking_strategy``.
        column_map: the row's columns for ``prompt``, ``chosen``, ``rejected`` and, optionally, ``tools`` and
            ``system``; None: they have these names.
        new_system_prompt: the text of a system message that replaces the row's own; None: the row's stay.
        masking_strategy: which messages are trained on; None: the assistant's.

    Raises:
        ConfigError: an argument can't be used.

    Calling it raises a ColumnError when the row lacks a column or a turn lacks a key, and a DataError when a turn has
    an unknown role, or holds pictures or what a message has no place for.

    >>> row = {"prompt": "1 + 1?", "chosen": "2", "rejected": {"from": "gpt", "value": "3"}}
    >>> {side: [m.text_content for m in messages] for side, messages in PromptedPairToMessages()(row).items()}
    {'chosen': ['1 + 1?', '2'], 'rejected': ['1 + 1?', '3']}
    """

    optional_columns: ClassVar[Mapping[str, str]] = {"tools": "tools", "system": "system"}

    def __init__(
        self,
        train_on_input: bool | None = None,
        column_map: Mapping[str, str | None] | None = None,
        new_system_prompt: str | None = None,
        masking_strategy: str | MaskingStrategy | None = None,
    ) -> None:
        self.masking_strategy = resolve_masking_strategy(
            train_on_input, masking_strategy, default=MaskingStrategy.TRAIN_ON_ASSISTANT
        )
        self.column_map = resolve_column_map(
            column_map, required=("prompt", "chosen", "rejected"), optional=self.optional_columns
        )
        self.new_system_prompt = as_system_prompt(new_system_prompt)

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """``{"chosen": [...], "rejected": [...]}``, and the row's ``tools``, where it has any."""
        columns = self.column_map
        prompt = with_system_of(sample, columns, messages_in(sample, columns["prompt"], "prompt", speaker="user"))
        sides = {side: self._messages(sample, prompt, side) for side in ("chosen", "rejected")}
        return {**sides, **tools_of(sample, columns)}

    def _messages(self, row: Mapping[str, Any], prompt: list[Message], side: str) -> list[Message]:
        answer = messages_in(row, self.column_map[side], side, speaker="assistant")
        messages = answer if answer[: len(prompt)] == prompt else [*prompt, *answer]
        return finished(messages, self.new_system_prompt, self.masking_strategy)


class StackExchangePairedToMessages(PromptedPairToMessages):
    """A question and two answers, texts in the columns ``prompt``, ``chosen`` and ``rejected``, to two conversations.

    Args:
        train_on_input: deprecated. True trains on the question too, as long as it isn't shared by both conversations,
            whose prompt is never trained.
        column_map: other names for those columns; None: they have these names.

    Raises:
        ConfigError: an argument can't be used.
    """

    def __init__(self, train_on_input: bool = False, column_map: Mapping[str, str | None] | None = None) -> None:
        super().__init__(train_on_input=train_on_input or None, column_map=column_map)


_SPEAKERS: dict[str, Role] = {"Human": "user", "Assistant": "assistant"}
_TURN = re.compile(r"(?:\A|\n\n)(Human|Assistant):[ ]?")


class TranscriptPairToMessages:
    """A row with two transcripts, texts of ``Human:`` and ``Assistant:`` paragraphs, into two lists of messages.

    A turn begins with such a word at the begin of the text or after an empty line. White space around what is said is
    left out.

    Args:
        column_map: the row's columns for ``chosen`` and ``rejected``; None: they have these names.
        new_system_prompt: the text of a system message put before both; None: none is.
        masking_strategy: which messages are trained on; None: the assistant's.

    Raises:
        ConfigError: an argument can't be used.

    Calling it raises a ColumnError when the row lacks a column, and a DataError when a text is no transcript.

    >>> row = {"chosen": "\\n\\nHuman: 1 + 1?\\n\\nAssistant: 2", "rejected": "\\n\\nHuman: 1 + 1?\\n\\nAssistant: 3"}
    >>> [(m.role, m.text_content) for m in TranscriptPairToMessages()(row)["chosen"]]
    [('user', '1 + 1?'), ('assistant', '2')]
    """

    def __init__(
        self,
        column_map: Mapping[str, str | None] | None = None,
        new_system_prompt: str | None = None,
        masking_strategy: str | MaskingStrategy | None = None,
    ) -> None:
        self.masking_strategy = resolve_masking_strategy(
            None, masking_strategy, default=MaskingStrategy.TRAIN_ON_ASSISTANT
        )
        self.column_map = resolve_column_map(column_map, required=("chosen", "rejected"))
        self.new_system_prompt = as_system_prompt(new_system_prompt)

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """``{"chosen": [...], "rejected": [...]}``."""
        return {side: self._messages(sample, side) for side in ("chosen", "rejected")}

    def _messages(self, row: Mapping[str, Any], side: str) -> list[Message]:
        before, *rest = _TURN.split(text_cell(row, self.column_map[side], side))
        if before.strip() or not rest:
            raise DataError(
                f"Column {self.column_map[side]!r} is no transcript: it has to begin with 'Human:' or 'Assistant:', "
                "and each turn after an empty line."
            )
        messages = [Message(_SPEAKERS[who], said.strip()) for who, said in zip(rest[::2], rest[1::2], strict=True)]
        return finished(messages, self.new_system_prompt, self.masking_strategy)
