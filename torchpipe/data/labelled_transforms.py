"""Rows with one answer, and whether it is a good one, into messages and that flag."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torchpipe.data.columns import cell, refuse_no_row, resolve_column_map
from torchpipe.data.masking import MaskingStrategy, resolve_masking_strategy
from torchpipe.data.named_columns import NamesColumns
from torchpipe.data.turns import as_system_prompt, finished, messages_in, tools_of, with_system_of
from torchpipe.errors import ColumnError


class LabelledToMessages(NamesColumns):
    """A row with one conversation and a label, into messages and ``desirable``.

    The conversation stands in the column ``messages``, as a list of turns of OpenAI's or ShareGPT's layout; or, with
    ``prompt`` and ``completion`` in ``column_map``, in these two, each a text, a turn or a list of turns.

    Args:
        column_map: the row's columns for ``messages`` and ``label``, or for ``prompt``, ``completion`` and ``label``,
            and, optionally, ``tools`` and ``system``; None: ``messages`` and ``label``.
        new_system_prompt: the text of a system message that replaces the row's own; None: the row's stay.
        masking_strategy: which messages are trained on; None: the assistant's.

    Raises:
        ConfigError: an argument can't be used.

    Calling it raises a ColumnError when the row lacks a column, or its label is not true or false (or 1 or 0), and a
    DataError when a turn is no message.

    >>> row = {"prompt": "1 + 1?", "completion": "2", "label": True}
    >>> columns = {name: name for name in row}
    >>> made = LabelledToMessages(columns)(row)
    >>> [message.text_content for message in made["messages"]], made["desirable"]
    (['1 + 1?', '2'], True)
    """

    optional_columns: ClassVar[Mapping[str, str]] = {"tools": "tools", "system": "system"}

    def __init__(
        self,
        column_map: Mapping[str, str | None] | None = None,
        new_system_prompt: str | None = None,
        masking_strategy: str | MaskingStrategy | None = None,
    ) -> None:
        is_prompted = bool(column_map) and "messages" not in column_map and "conversations" not in column_map
        names = ("prompt", "completion", "label") if is_prompted else ("messages", "label")
        self.column_map = resolve_column_map(column_map, required=names, optional=self.optional_columns)
        self.new_system_prompt = as_system_prompt(new_system_prompt)
        self.masking_strategy = resolve_masking_strategy(
            None, masking_strategy, default=MaskingStrategy.TRAIN_ON_ASSISTANT
        )

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """``{"messages": [...], "desirable": bool}``, and the row's ``tools``, where it has any."""
        refuse_no_row(sample)
        columns = self.column_map
        if "messages" in columns and columns["messages"] not in sample and {"prompt", "completion"} <= sample.keys():
            raise ColumnError(
                f"The row has 'prompt' and 'completion', and no {columns['messages']!r}. Name them in column_map: "
                "{prompt: prompt, completion: completion, label: label}."
            )
        if "messages" in columns:
            messages = messages_in(sample, columns["messages"], "messages", speaker=None)
        else:
            prompt = messages_in(sample, columns["prompt"], "prompt", speaker="user")
            messages = [*prompt, *messages_in(sample, columns["completion"], "completion", speaker="assistant")]
        messages = with_system_of(sample, columns, messages)
        return {
            "messages": finished(messages, self.new_system_prompt, self.masking_strategy),
            "desirable": _flag(cell(sample, columns["label"], "label"), columns["label"]),
            **tools_of(sample, columns),
        }


def _flag(value: Any, column: str) -> bool:
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise ColumnError(
        f"Column {column!r} holds {value!r}; a label is true (a good answer) or false. Name the right column in "
        "column_map, under 'label', or drop the row with a filter_fn.",
        reason="empty" if value is None else None,
    )
