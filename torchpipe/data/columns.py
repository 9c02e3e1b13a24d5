"""Reading a row's columns by the names that a column_map gives them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from torchpipe._suggest import did_you_mean, listed
from torchpipe.errors import ColumnError, ConfigError


def resolve_column_map(
    column_map: Mapping[str, str | None] | None, *, required: Sequence[str], optional: Collection[str] = ()
) -> dict[str, str]:
    """The row's column for every name in ``required`` and ``optional``; a name that is not mapped stands for itself.

    Args:
        column_map: our name -> the row's column; None or empty: the names stand for themselves. An optional name that
            leads to None is left out: no column is read for it.
        required: names that a column_map must have, unless it does nothing but to leave out others.
        optional: names that it may have.

    Raises:
        ConfigError: a name is unknown or missing, or a column is not a string.

    >>> resolve_column_map({"input": "question", "output": "answer"}, required=["input", "output"], optional=["image"])
    {'input': 'question', 'output': 'answer', 'image': 'image'}
    >>> resolve_column_map({"tools": None}, required=["messages"], optional=["tools"])
    {'messages': 'messages'}
    """
    names = (*required, *optional)
    given = dict(column_map or {})
    for name, column in given.items():
        if name not in names:
            raise ConfigError(
                f"column_map has the key {name!r}; it may have {listed(names)}.{did_you_mean(name, names)}"
            )
        if column is None and name in optional:
            continue
        if not isinstance(column, str):
            raise ConfigError(f"column_map[{name!r}] is {column!r}; it must be the name of a column.")
    missing = [name for name in required if name not in given]
    if missing and any(column is not None for column in given.values()):
        raise ConfigError(f"column_map must name a column for {listed(required)}; it has none for {listed(missing)}.")
    columns = {name: given.get(name, name) for name in names}
    return {name: column for name, column in columns.items() if column is not None}


def refuse_no_row(row: Any) -> None:
    """Refuses what has no columns.

    Raises:
        ColumnError: it is no dict, and nothing that is read like one.
    """
    if not isinstance(row, Mapping) and not hasattr(row, "keys"):
        what = "null" if row is None else f"a {type(row).__name__}"
        turns = " A list of turns stands under a column, as {'messages': [...]}." if isinstance(row, list) else ""
        raise ColumnError(
            f"The row is {what}, and a row is a dict of columns.{turns} Mend the source.",
            reason="empty" if row is None else None,
        )


def cell(row: Mapping[str, Any], column: str, name: str | None) -> Any:
    """What the row holds in ``column``.

    Args:
        row: one row of the source.
        column: which column to read.
        name: the column_map key that leads there, for the error; None where the option ``column`` does.

    Raises:
        ColumnError: there is no such column.
    """
    try:
        return row[column]
    except TypeError:
        refuse_no_row(row)
        raise
    except KeyError:
        near = did_you_mean(column, row)
        by_builder = " (chat_dataset: conversation_column)" if name in ("messages", "conversations") else ""
        option = "under column" if name is None else f"in column_map, under {name!r}{by_builder}"
        raise ColumnError(
            f"The row has no column {column!r}; it has {listed(row)}.{near} Name the right one {option}."
        ) from None


def text_cell(row: Mapping[str, Any], column: str, name: str | None) -> str:
    """The text that the row holds in ``column``; the arguments are those of :func:`cell`.

    Raises:
        ColumnError: there is no such column.
        DataError: it holds null, or something that is not text.
    """
    value = cell(row, column, name)
    if not isinstance(value, str):
        raise ColumnError(f"Column {column!r} {not_text(value)}", reason="empty" if value is None else None)
    return value


def not_text(value: Any) -> str:
    """The end of a sentence about a value that should be text: what it is, and what to do."""
    if value is None:
        return "is null, so there is no text to train on. Drop such rows with a filter_fn, or fill them in the source."
    return f"holds a {type(value).__name__} ({_short(value)}), not text. Convert it to a string in the source."


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."
