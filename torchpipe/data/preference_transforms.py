"""Rows with two answers, one of them preferred, into messages."""

from collections.abc import Mapping
from typing import Any

from torchpipe.data.columns import resolve_column_map
from torchpipe.data.masking import MaskingStrategy, resolve_masking_strategy
from torchpipe.data.messages import Message
from torchpipe.data.turns import as_system_prompt, finished, messages_of, tools_of
from torchpipe.errors import DataError, located


class ChosenRejectedToMessages:
    """A row with two conversations, lists of ``{"role": ..., "content": ...}`` turns, into two lists of messages.

    Each is read as :class:`~torchpipe.data.OpenAIToMessages` reads one, of text alone; a turn's own ``ipython`` and
    ``eot`` are taken. The two need not begin with the same turns.

    Args:
        train_on_input: deprecated, use ``masking_strategy``.
        column_map: the row's columns for ``chosen``, ``rejected`` and, optionally, ``tools``; None: they have
            these names.
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
        self.column_map = resolve_column_map(column_map, required=("chosen", "rejected"), optional=("tools",))
        self.new_system_prompt = as_system_prompt(new_system_prompt)

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """``{"chosen": [...], "rejected": [...]}``, and the row's ``tools``, where it has any."""
        sides = {side: self._messages(sample, side) for side in ("chosen", "rejected")}
        return {**sides, **tools_of(sample, self.column_map)}

    def _messages(self, row: Mapping[str, Any], side: str) -> list[Message]:
        try:
            messages = messages_of(row, self.column_map[side], side, style="openai", read_image=None, own_flags=True)
        except DataError as error:
            raise located(error, f"In {side!r}") from error.__cause__
        return finished(messages, self.new_system_prompt, self.masking_strategy)
