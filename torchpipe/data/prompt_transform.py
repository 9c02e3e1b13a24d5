"""Rows to prompts that a model goes on from."""

import inspect
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.columns import cell, resolve_column_map
from torchpipe.data.label_lists import as_list
from torchpipe.data.messages import Message
from torchpipe.data.named_columns import NamesColumns
from torchpipe.data.overflow import Fitted, without_limit
from torchpipe.data.protocols import Transform
from torchpipe.data.turns import as_system_prompt, messages_in, tools_of, with_system_of
from torchpipe.data.whole_row import Cut
from torchpipe.errors import ColumnError, DataError


class PromptToMessages(NamesColumns):
    """A row to the messages of its prompt: up to the last one of the user. Answers behind it are left out.

    Args:
        column_map: the row's columns for ``prompt`` and, optionally, ``tools`` and ``system``; None: they have these
            names. The prompt is a text, a turn, a list of turns of OpenAI's or ShareGPT's layout, or a list of
            texts, of which the first is taken: the others are asked after it was answered.
        new_system_prompt: the text of a system message that replaces the row's own; None: the row's stay.

    Raises:
        ConfigError: an argument can't be used.

    Calling it raises a ColumnError when the row lacks the column, and a DataError when no message is the user's.

    >>> to_messages = PromptToMessages({"prompt": "turns"})
    >>> [m.text_content for m in to_messages({"turns": ["1 + 1?", "And 2 more?"]})["messages"]]
    ['1 + 1?']
    """

    optional_columns: ClassVar[Mapping[str, str]] = {"tools": "tools", "system": "system"}

    def __init__(
        self, column_map: Mapping[str, str | None] | None = None, new_system_prompt: str | None = None
    ) -> None:
        self.column_map = resolve_column_map(column_map, required=("prompt",), optional=self.optional_columns)
        self.new_system_prompt = as_system_prompt(new_system_prompt)

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """``{"messages": [...]}``, and the row's ``tools``, where it has any."""
        column = self.column_map["prompt"]
        held = cell(sample, column, "prompt")
        row = {**sample, column: held[0]} if isinstance(held, list) and held and isinstance(held[0], str) else sample
        messages = with_system_of(sample, self.column_map, messages_in(row, column, "prompt", speaker="user"))
        end = max((place for place, message in enumerate(messages) if message.role in _ASKS), default=-1) + 1
        if end == 0:
            raise DataError(f"Column {column!r} has no message of the user, so that nothing is asked.", reason="empty")
        messages = messages[:end]
        if self.new_system_prompt is not None:
            others = [message for message in messages if message.role != "system"]
            messages = [Message("system", self.new_system_prompt), *others]
        return {"messages": messages, **tools_of(sample, self.column_map)}


_ASKS = ("user", "tool", "ipython")
"""Whose messages an answer follows."""


class PromptTransform:
    """Turns a row into the tokens that a model goes on from: its messages, and what begins the assistant's reply.

    Args:
        message_transform: row to ``{"messages": [...]}``, and ``tools``, if any; the last message is not the
            assistant's.
        model_transform: the tokenizer.
        max_prompt_len: the most tokens; None: any number.
        truncate: of a longer prompt: True leaves out its first tokens, False is an error.
        keep_columns: columns whose values an item keeps.

    Attributes:
        whole_transform: the tokenizer, without a length of its own.
    """

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"whole_transform"})

    def __init__(
        self,
        message_transform: Transform,
        model_transform: Transform,
        *,
        max_prompt_len: int | None = None,
        truncate: bool = False,
        keep_columns: Sequence[str] = (),
    ) -> None:
        self.message_transform = message_transform
        self.model_transform = model_transform
        self.max_prompt_len = max_prompt_len
        self.truncate = truncate
        self.keep_columns = tuple(keep_columns)
        self.whole_transform = without_limit(model_transform)

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """``{"tokens": [...]}``, and ``columns``, a dict of those that are kept, where any are.

        Raises:
            DataError: there is no prompt, or it is too long.
        """
        kept = self.columns_of(sample)
        return {"tokens": as_list(self.fitted(sample).samples[0]["tokens"]), **({"columns": kept} if kept else {})}

    def fitted(self, sample: Mapping[str, Any], *, labels: bool = True) -> Fitted:
        """The one sample of a row, ``tokens`` and ``mask``, by which nothing is trained."""
        return self.fitted_rows([sample])[0]

    def fitted_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[Fitted]:
        """What :meth:`fitted` gives each row; the tokenizer is given several conversations at once."""
        read = [self.conversation(row) for row in rows]
        for row in rows:
            self.columns_of(row)
        return [self._fitted(tokens) for tokens in tokens_of_prompts(self.whole_transform, read)]

    def _fitted(self, tokens: Any) -> Fitted:
        num_tokens, cut = len(tokens), {}
        limit = self.max_prompt_len
        if limit is not None and num_tokens > limit:
            if not self.truncate:
                raise DataError(
                    f"The prompt has {num_tokens} tokens, and max_prompt_len is {limit}. Raise it, set overflow to "
                    "'truncate', or drop the row with filter_fn.",
                    reason="too_long",
                )
            tokens = as_list(tokens[-limit:])
            cut = {
                "num_truncated": num_tokens - limit,
                "cut": Cut(start=num_tokens - limit, stop=num_tokens, side="left"),
            }
        mask: Any = np.ones(len(tokens), np.bool_) if isinstance(tokens, np.ndarray) else [True] * len(tokens)
        return Fitted(samples=[{"tokens": tokens, "mask": mask, **cut}], num_tokens=num_tokens)

    def conversation(self, sample: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the tokenizer is given: ``messages``, and the row's ``tools``, where it has any.

        Raises:
            DataError: there is no prompt.
        """
        row = self.message_transform(sample)
        if not isinstance(row, Mapping) or not row.get("messages"):
            raise DataError("The message_transform of a prompt data set returns 'messages', at least one.")
        return row

    def columns_of(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a row that its item keeps, by column.

        Raises:
            ColumnError: the row lacks one; the sentence names the nearest.
        """
        return {name: _kept(sample, name) for name in self.keep_columns}


def prompt_tokens(model_transform: Any, messages: Sequence[Message], tools: Any = None) -> list[int]:
    """The tokens of messages and of what begins a reply to them; see :func:`tokens_of_prompts`."""
    return as_list(tokens_of_prompts(model_transform, [{"messages": messages, "tools": tools}])[0])


def tokens_of_prompts(model_transform: Any, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Of each row the tokens of its messages and of what begins a reply to them: a list, or an array of uint32.

    A tokenizer that knows ``add_generation_prompt`` writes that itself; of another one it is what stands before the
    text of an assistant's message that is left open.

    Args:
        model_transform: the tokenizer.
        rows: with ``messages``, and ``tools``, if any.

    Raises:
        DataError: the chat format can't write the messages.
    """
    method: Any = getattr(model_transform, "tokenize_messages", None)
    if method is not None and _knows_prompts(getattr(method, "__func__", method)):
        return [list(method(list(row["messages"]), row.get("tools"), add_generation_prompt=True)[0]) for row in rows]
    given = [
        {"messages": [*row["messages"], Message("assistant", "")], **({"tools": tools} if tools else {})}
        for row, tools in ((row, row.get("tools")) for row in rows)
    ]
    if hasattr(model_transform, "as_arrays"):
        return [made["tokens"] for made in model_transform.as_arrays(given, inference=True)]
    return [model_transform(one, inference=True)["tokens"] for one in given]


@lru_cache(maxsize=64)
def _knows_prompts(tokenize_messages: Any) -> bool:
    return "add_generation_prompt" in inspect.signature(tokenize_messages).parameters


def _kept(row: Mapping[str, Any], name: str) -> Any:
    if name not in row:
        raise ColumnError(f"keep_columns has {name!r}; the row has {listed(row)}.{did_you_mean(name, row)}")
    return row[name]
