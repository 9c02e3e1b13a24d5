"""Which rows of a source are used, and what is made of one: errors name the row."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from torchpipe._dotpath import resolve
from torchpipe._suggest import listed
from torchpipe.errors import ConfigError, SourceError, located
from torchpipe.sources.huggingface import Rows
from torchpipe.sources.views import KeptRows

Made = TypeVar("Made")

# What only makes a filter of Hugging Face faster, or shows its progress; our own loop does without.
_SPEED_OPTIONS = {
    *("num_proc", "desc", "writer_batch_size", "load_from_cache_file", "keep_in_memory", "cache_file_name"),
    *("batch_size", "new_fingerprint", "suffix_template"),
}
# What decides how a filter of Hugging Face calls its function.
_CALL_OPTIONS = {"with_indices", "with_rank", "input_columns", "batched", "fn_kwargs"}


class RowFilter:
    """Keeps the rows for which a function is true.

    Args:
        filter_fn: the function, or its dotted name.
        filter_kwargs: further arguments of the ``filter`` of Hugging Face data sets.
    """

    def __init__(self, filter_fn: Callable[..., bool] | str, filter_kwargs: Mapping[str, Any]) -> None:
        self.filter_fn: Callable[..., Any] = resolve(filter_fn) if isinstance(filter_fn, str) else filter_fn
        self.filter_kwargs = dict(filter_kwargs)

    def kept(self, rows: Rows, name: str) -> Rows:
        """The rows that are kept, all of them read now; a Hugging Face data set does it by its own ``filter``.

        Raises:
            SourceError: none is kept.
            ConfigError: ``filter_kwargs`` that only Hugging Face's ``filter`` has, and the rows have none.
        """
        own_filter = getattr(rows, "filter", None)
        if callable(own_filter):
            kept: Any = own_filter(self.filter_fn, **self.filter_kwargs)
        else:
            self.refuse_options(name)
            kept = KeptRows(
                rows, np.array([i for i in range(len(rows)) if self.keeps(rows[i], i, name)], dtype=np.int64)
            )
        if len(kept) == 0:
            raise nothing_kept(len(rows), name)
        return kept

    def refuse_options(self, name: str) -> None:
        """Refuses options that rows without a ``filter`` of their own have no meaning for."""
        if other := sorted(set(self.filter_kwargs) - _SPEED_OPTIONS):
            raise ConfigError(f"filter_kwargs {', '.join(other)} are for Hugging Face data sets; {name} is not one.")

    def check(self, rows: Rows, name: str) -> None:
        """Refuses options by which :meth:`keeps` could not decide row by row."""
        if type(rows).__module__.partition(".")[0] != "datasets":
            self.refuse_options(name)
        if other := sorted(set(self.filter_kwargs) - _SPEED_OPTIONS - _CALL_OPTIONS):
            raise ConfigError(
                f"filter_kwargs {listed(other)} are no options of a filter that is called row by row. There are "
                f"{listed(sorted(_CALL_OPTIONS))}."
            )

    def keeps(self, row: Mapping[str, Any], index: int, name: str) -> bool:
        """Whether the function is true of one row, called as Hugging Face's ``filter`` calls it.

        Raises:
            Exception: what the function raises, with the row's number.
        """
        options = self.filter_kwargs
        columns = options.get("input_columns")
        batched = bool(options.get("batched"))
        try:
            values: list[Any] = [row] if columns is None else [row[column] for column in _as_list(columns)]
            if batched:
                values = [{key: [value] for key, value in row.items()}] if columns is None else [[v] for v in values]
            if options.get("with_indices"):
                values.append([index] if batched else index)
            if options.get("with_rank"):
                values.append(0)
            answer: Any = self.filter_fn(*values, **(options.get("fn_kwargs") or {}))
            return bool(answer[0]) if batched else bool(answer)
        except Exception as error:
            raise located(error, f"filter_fn at row {index} of {name}")  # noqa: B904  # the same error


def nothing_kept(num_rows: int, name: str) -> SourceError:
    """The error of a filter that keeps no row."""
    return SourceError(f"filter_fn kept none of the {num_rows} rows of {name}. Check what it returns.")


def made_of_row(rows: Rows, index: int, name: str, make: Callable[[Any], Made]) -> Made:
    """What ``make`` makes of one row.

    Raises:
        Exception: what reading or making raises, with the row's number and the name of the source.
    """
    try:
        row = rows[index]
        # A transform that changes its row must not change a source that lies in memory.
        return make(dict(row) if isinstance(row, dict) else row)
    except Exception as error:
        raise located(error, f"Row {index} of {name}")  # noqa: B904  # the same error, not a second one


def _as_list(columns: Any) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns)
