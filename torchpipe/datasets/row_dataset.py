"""Rows of a source and what a transform makes of each: the part that map-style data sets share."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from torch.utils.data import Dataset

from torchpipe._fingerprint import fingerprint
from torchpipe._progress import track
from torchpipe.data.ledger_summary import NUM_EXAMPLES, LedgerSummary
from torchpipe.data.named_columns import check_named_columns
from torchpipe.data.overflow import Fitted
from torchpipe.datasets.row_number import row_number
from torchpipe.errors import ConfigError, SourceError, located
from torchpipe.sources import KeptRows, check_rows
from torchpipe.sources.row_filter import RowFilter, made_of_row
from torchpipe.store.row_selection import RowSelection
from torchpipe.store.rows import can_be_packed
from torchpipe.store.source_recipe import SourceRecipe, is_trained, untrained_error

Made = TypeVar("Made")


class RowDataset(Dataset[dict[str, Any]]):
    """Rows of a recipe's source, each turned into one item when it is asked for. Construction tokenises nothing.

    A kind of items is a subclass: its constructor makes the recipe, whose transform makes the items.

    Attributes:
        name: what errors call the source.
        num_filtered: rows that ``filter_fn`` left out.
        num_left_out: rows that a split or duplicates left out, by reason.
        rows: those that are left.
        transform: what makes an item of one.
        recipe: all of this, as a store is built from it.
    """

    @classmethod
    def of_recipe(cls, recipe: SourceRecipe, *, as_stored: bool = False) -> Self:
        """The data set of a recipe.

        Args:
            recipe: what the constructor is given otherwise.
            as_stored: True numbers rows as a store does: those that the filter leaves out count, and a row may give no
                sample or several.

        Raises:
            SourceError, ConfigError: as the constructor.
        """
        dataset = cls.__new__(cls)
        dataset._open(recipe, filters=not as_stored, one_sample_a_row=not as_stored)
        return dataset

    def _open(self, recipe: SourceRecipe, *, filters: bool, one_sample_a_row: bool) -> None:
        if one_sample_a_row:
            self.refuse_other_than_one(recipe)
        self.recipe = recipe
        self.transform: Any = recipe.transform()  # of a class of its own in each kind
        self.name = recipe.name
        rows = self.rows = recipe.load()
        check_named_columns(rows, self.transform, self.name)
        if one_sample_a_row:
            check_rows(rows)  # a malformed row is found now, not in the middle of an epoch
        if filters and recipe.filter_fn is not None:
            self.rows = RowFilter(recipe.filter_fn, recipe.filter_kwargs or {}).kept(rows, self.name)
            self.name += ", counted after filter_fn"
        self.num_filtered = len(rows) - len(self.rows)
        self._all = self.rows
        self._numbers: np.ndarray | None = None  # of the used rows among all
        self.num_left_out: dict[str, int] = {}
        self._examples: dict[str, list[int]] = {}
        if filters and (recipe.holdout is not None or recipe.duplicates is not None):
            self._select(recipe)
        self._has_warned = False

    def _select(self, recipe: SourceRecipe) -> None:
        """Leaves out what a split or duplicates do."""
        selection = RowSelection(self.rows, self.name, holdout=recipe.holdout, duplicates=recipe.duplicates)
        kept: list[int] = []
        for row in track(range(len(self.rows)), f"Choosing rows of {self.name}"):
            if (why := selection.why_out(row)) is None:
                kept.append(row)
                continue
            self.num_left_out[why] = self.num_left_out.get(why, 0) + 1
            if self.num_left_out[why] <= NUM_EXAMPLES:
                self._examples.setdefault(why, []).append(row)
        if not kept:
            raise SourceError(
                f"No row of {self.name} is left of {len(self.rows)}: {self.num_left_out}. Check holdout and "
                "drop_duplicates."
            )
        self._numbers = np.array(kept, dtype=np.int64)
        self.rows = KeptRows(self._all, self._numbers)

    @classmethod
    def refuse_other_than_one(cls, recipe: SourceRecipe) -> None:
        """Refuses a recipe that makes no item of a row, or several: here, row k is item k.

        Raises:
            ConfigError: it does; the sentence says which option.
        """
        transform = getattr(recipe, "model_transform", None)
        if not getattr(transform, "one_sample_a_row", True):
            on_unproved = getattr(transform, "on_unproved", None)
            packing = "pack (packed=True) or " if can_be_packed(recipe.kind) else ""
            raise ConfigError(
                f"The tokenizer has on_unproved={on_unproved!r}, which makes none or several samples of a row, and "
                f"this data set has one for each. Use 'refuse' or 'common_prefix', {packing}store it (cache=True)."
            )

    @property
    def kind(self) -> str:
        """What kind of samples the rows become, as the recipe says."""
        return self.recipe.kind

    nothing_to_train: ClassVar[str] = "no token that is trained"
    """What is said of an item that trains nothing."""

    def trains(self, item: Mapping[str, Any]) -> bool:
        """Whether an item trains anything; one without labels is not asked."""
        return "labels" not in item or is_trained(item)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        sample = self._made(index, self.transform)
        if self.recipe.row_policy.on_untrained != "keep" and not self.trains(sample):
            self._untrained(self._source_row(row_number(index)))
        return sample

    def _untrained(self, row: int) -> None:
        """Raises, or says once, that a row trains nothing. It is a sample all the same, since row k is sample k."""
        where = f"Row {row} of {self.name}"
        if self.recipe.row_policy.on_untrained == "raise":
            raise located(untrained_error(), where)
        if not self._has_warned:
            self._has_warned = True
            storing = "packed=True or cache=True" if can_be_packed(self.kind) else "cache=True"
            warnings.warn(
                f"{where} has {self.nothing_to_train}, and so has its sample. {storing} leaves such rows out and "
                "counts them; a filter_fn drops them; on_untrained='raise' refuses them.",
                stacklevel=3,
            )

    @cached_property
    def ledger(self) -> LedgerSummary:
        """What became of the source's rows. All of them are read when it is first asked for, so that a bad one raises
        its error here.
        """
        for row in track(range(len(self)), f"Checking rows of {self.name}"):
            self[row]
        left_out = left_out_before(self)
        read = len(self) + sum(left_out.values())
        return LedgerSummary(read=read, used=len(self), left_out=left_out, examples=self._source_examples())

    def _source_examples(self) -> dict[str, tuple[int, ...]]:
        """The first rows of each reason, by their numbers in the source, as a store has them.

        The own filter of a Hugging Face data set does not say which rows it left: then there are none.
        """
        if not self.num_filtered:
            return {reason: tuple(rows) for reason, rows in self._examples.items()}
        if not isinstance(self._all, KeptRows):
            return {}
        kept = self._all.numbers
        left = np.setdiff1d(np.arange(len(kept) + self.num_filtered), kept)[:NUM_EXAMPLES]
        examples = {reason: tuple(kept[rows].tolist()) for reason, rows in self._examples.items()}
        return {"filtered": tuple(left.tolist()), **examples}

    def fitted(self, index: int) -> Fitted:
        """The samples that a row gives: none, one, or several, as ``overflow`` says."""
        return self._made(index, self.transform.fitted)

    def fingerprint(self) -> str:
        """What tells these samples from others: the rows that are left, and what is made of them.

        Raises:
            NoFingerprint: the source, or a transform, can't be told from others.
        """
        return fingerprint(sorted(self.recipe.key_fields().items()))

    def _made(self, index: int, make: Callable[[Any], Made]) -> Made:
        index = row_number(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"Row {index} was asked for, and {self.name} has {len(self)} rows.")
        return made_of_row(self._all, self._source_row(index), self.name, make)

    def _source_row(self, index: int) -> int:
        """The number of a row among those that a split or duplicates leave out, too."""
        index %= len(self)
        return index if self._numbers is None else int(self._numbers[index])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[index] for index in range(len(self)))


def left_out_before(dataset: Any) -> dict[str, int]:
    """Rows that a filter, a split or duplicates left out before they were rows of a map-style data set, by reason."""
    filtered = getattr(dataset, "num_filtered", 0)
    return {**({"filtered": filtered} if filtered else {}), **getattr(dataset, "num_left_out", {})}
