"""Which rows are held out for validation: by a hash of each row's content or group, before anything is made of it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np

from torchpipe._seeds import derive
from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.data.row_content import content_digest
from torchpipe.errors import ColumnError, ConfigError, located

Part = Literal["train", "validation"]
"""The two parts of a split."""


@dataclass(frozen=True, kw_only=True)
class Holdout:
    """A split of rows in two parts, and which of them is used.

    A row's part depends on its own content, or on its group, and the seed: not on other rows, nor on their order. So
    rows that are added later move none, equal rows are always in one part, and so are the rows of a group. The part for
    validation has ``share`` of all rows (or groups) on average, not to the row.

    Attributes:
        share: of the validation part, above 0 and below 1.
        part: which part is used.
        group_column: a column whose value, such as an id of a document or a user, keeps rows together; None: a row's
            whole content.
        seed: another one gives another split.

    Raises:
        ConfigError: a value is not possible.

    >>> rows = [{"user": n % 50, "text": str(n)} for n in range(1000)]
    >>> by_user = Holdout(share=0.1, group_column="user")
    >>> sorted({row["user"] for row in rows if by_user.is_validation(row)})
    [10, 15, 27]
    """

    share: float
    part: Part = "train"
    group_column: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        share = self.share
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
            raise ConfigError(f"share of holdout is {share!r}. Give the part of all rows to hold out, such as 0.05.")
        if self.part not in (parts := get_args(Part)):
            near = did_you_mean(str(self.part), parts)
            raise ConfigError(f"part of holdout is {self.part!r}. It is one of {listed(parts)}.{near}")
        if self.group_column is not None and not isinstance(self.group_column, str):
            raise ConfigError(f"group_column of holdout is {self.group_column!r}. Give the name of a column, or None.")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise ConfigError(f"seed of holdout is {self.seed!r}. Give a whole number.")

    @classmethod
    def of(cls, given: "Holdout | Mapping[str, Any] | None") -> "Holdout | None":
        """The split that a config's mapping stands for; a split, or None, as it is.

        Raises:
            ConfigError: a key is unknown or missing.
        """
        if given is None or isinstance(given, Holdout):
            return given
        names = [field.name for field in fields(cls)]
        if not isinstance(given, Mapping):
            raise ConfigError(f"holdout is a {type(given).__name__}. It is a mapping of {listed(names)}.")
        for name in given:
            if name not in names:
                raise ConfigError(
                    f"holdout has the key {name!r}; it may have {listed(names)}.{did_you_mean(name, names)}"
                )
        if "share" not in given:
            raise ConfigError("holdout has no share. Give the part of all rows to hold out, such as share: 0.05.")
        return cls(**given)

    def is_validation(self, row: Mapping[str, Any]) -> bool:
        """Whether a row belongs to the part for validation.

        Raises:
            ColumnError: it has no ``group_column``, or null in it.
        """
        columns = None if self.group_column is None else [self.group_column]
        digest = content_digest(row, columns)
        if self.group_column is not None and row[self.group_column] is None:
            raise ColumnError(f"Column {self.group_column!r}, the group by which rows are held out, is null.")
        return derive(self.seed, "holdout", digest.hex()) < int(self.share * 2**64)

    def uses(self, row: Mapping[str, Any]) -> bool:
        """Whether a row belongs to the part that is used."""
        return self.is_validation(row) == (self.part == "validation")


def split_rows(
    rows: RandomAccessDataSource[Mapping[str, Any]], *, share: float, group_column: str | None = None, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the rows for training, and of those for validation: int64, ascending; together all rows.

    Args:
        rows: of a source (:func:`torchpipe.sources.load_rows`), or a list of dicts.
        share, group_column, seed: see :class:`Holdout`.

    Raises:
        ConfigError: a value is not possible.
        ColumnError: a row has no ``group_column``; the sentence names it.

    >>> rows = [{"text": str(n)} for n in range(20)]
    >>> train, validation = split_rows(rows, share=0.1)
    >>> len(train), validation.tolist()
    (15, [0, 5, 8, 12, 16])
    """
    holdout = Holdout(share=share, group_column=group_column, seed=seed)
    held_out = np.zeros(len(rows), np.bool_)
    for number in range(len(rows)):
        try:
            held_out[number] = holdout.is_validation(rows[number])
        except Exception as error:
            raise located(error, f"Row {number}")  # noqa: B904  # the same error
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
