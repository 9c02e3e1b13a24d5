"""Columns that a user names for what a row may have or not: where no row has one, its name is a slip."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.errors import ConfigError, DataError


class NamesColumns:
    """A transform with a ``column_map``, of which some names may lead to a column that a row has not.

    Attributes:
        optional_columns: these names, and the column that each leads to where none is given.
        column_map: our name -> the row's column.
    """

    optional_columns: ClassVar[Mapping[str, str]]
    column_map: Mapping[str, str]

    @property
    def named_columns(self) -> dict[str, str]:
        """The optional columns that were given, for :func:`check_named_columns`."""
        optional = self.optional_columns
        return {ours: column for ours, column in self.column_map.items() if optional.get(ours, column) != column}


def check_named_columns(rows: RandomAccessDataSource[Mapping[str, Any]], transform: Any, name: str) -> None:
    """Refuses an optional column of a transform that was named, and that no row has.

    A row may lack such a column, and has no system prompt then, no tools, no input. So a slip in the name would raise
    nowhere, and all rows would lose what they hold under the right one. Rows are read up to the first that has it.

    Args:
        rows: of the source.
        transform: of rows to messages, or what holds one as ``message_transform`` or ``inner``.
        name: what errors call the source.

    Raises:
        ConfigError: no row has the column; the sentence names it and the nearest that the rows have.
    """
    naming = _naming(transform)
    missing = {} if naming is None else dict(naming.named_columns)
    seen: dict[str, None] = {}
    for number in range(len(rows)):
        if not missing:
            return
        try:
            row = rows[number]
        except DataError:  # a row that can't be read is met, and counted, where samples are made
            continue
        if isinstance(row, Mapping):
            missing = {ours: column for ours, column in missing.items() if column not in row}
            seen |= dict.fromkeys(row)
    if missing and seen:
        ours, column = next(iter(missing.items()))
        without = f", or map {ours!r} to null to do without" if ours in getattr(naming, "optional_columns", ()) else ""
        raise ConfigError(
            f"Column {column!r} was named for {ours!r}, and none of the {len(rows):,} rows of {name} has it; they have "
            f"{listed(seen)}.{did_you_mean(column, seen)} Name the right one{without}."
        )


def _naming(transform: Any) -> Any:
    """The transform that names columns; None where none does."""
    while transform is not None and getattr(transform, "named_columns", None) is None:
        transform = getattr(transform, "message_transform", None) or getattr(transform, "inner", None)
    return transform
