"""Rows with an instruction in up to four columns, as LLaMA-Factory's ``alpaca`` formatting has them, into messages."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torchpipe.data.columns import resolve_column_map, text_cell
from torchpipe.data.masking import MaskingStrategy, resolve_masking_strategy
from torchpipe.data.messages import Message
from torchpipe.data.named_columns import NamesColumns
from torchpipe.data.turns import as_system_prompt, finished, tools_of, with_system_of
from torchpipe.errors import ColumnError


class InstructionToMessages(NamesColumns):
    """A row with a prompt, perhaps a query, earlier turns and a system prompt, and a response, into a conversation.

    The user says the prompt and the query with a line break between them, and nothing else: no preamble, unlike
    :class:`~torchpipe.data.AlpacaToMessages`.

    Args:
        column_map: the row's columns for ``prompt``, ``response`` and, optionally, ``query``, ``history`` (a list of
            question and answer), ``system`` and ``tools``; one that leads to null is not read. None: ``instruction``,
            ``output`` and ``input``.
        new_system_prompt: the text of a system message that replaces the row's own; None: the row's stay.
        masking_strategy: which messages are trained on; None: the assistant's.

    Raises:
        ConfigError: an argument can't be used.

    Calling it raises a ColumnError when the row lacks a column, or one holds something else.

    >>> row = {"instruction": "Add.", "input": "1 + 1", "output": "2", "before": [["Hi", "Hello"]]}
    >>> columns = {"prompt": "instruction", "query": "input", "response": "output", "history": "before"}
    >>> [message.text_content for message in InstructionToMessages(columns)(row)["messages"]]
    ['Hi', 'Hello', 'Add.\\n1 + 1', '2']
    """

    optional_columns: ClassVar[Mapping[str, str]] = {
        "query": "input",
        "history": "history",
        "system": "system",
        "tools": "tools",
    }

    def __init__(
        self,
        column_map: Mapping[str, str | None] | None = None,
        new_system_prompt: str | None = None,
        masking_strategy: str | MaskingStrategy | None = None,
    ) -> None:
        optional = self.optional_columns
        given = column_map or {"prompt": "instruction", "query": "input", "response": "output"}
        self.column_map = resolve_column_map(
            {**dict.fromkeys(optional), **given}, required=("prompt", "response"), optional=optional
        )
        self.new_system_prompt = as_system_prompt(new_system_prompt)
        self.masking_strategy = resolve_masking_strategy(
            None, masking_strategy, default=MaskingStrategy.TRAIN_ON_ASSISTANT
        )

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """``{"messages": [...]}``, and the row's ``tools``, where it has any."""
        columns = self.column_map
        asked = [text_cell(sample, columns["prompt"], "prompt")]
        if "query" in columns and sample.get(columns["query"]) not in (None, ""):
            asked.append(text_cell(sample, columns["query"], "query"))
        messages = [
            *self._history(sample),
            Message("user", "\n".join(filter(None, asked))),
            Message("assistant", text_cell(sample, columns["response"], "response")),
        ]
        messages = with_system_of(sample, columns, messages)
        done = finished(messages, self.new_system_prompt, self.masking_strategy)
        return {"messages": done, **tools_of(sample, columns)}

    def _history(self, row: Mapping[str, Any]) -> list[Message]:
        column = self.column_map.get("history")
        held = None if column is None else row.get(column)
        if held is None:
            return []
        if not isinstance(held, list | tuple):
            raise ColumnError(
                f"Column {column!r} holds a {type(held).__name__}. It must be a list of [user, assistant]."
            )
        messages = []
        for index, turns in enumerate(held):
            if not isinstance(turns, list | tuple) or len(turns) != 2 or not all(isinstance(t, str) for t in turns):
                raise ColumnError(f"Item {index} of column {column!r} is not [user, assistant], two texts: {turns!r}.")
            messages += [Message("user", turns[0]), Message("assistant", turns[1])]
        return messages
