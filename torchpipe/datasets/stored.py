"""Samples of a store, one an item."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch.utils.data import Dataset

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.ledger import SampleCounts
from torchpipe.data.ledger_summary import LedgerSummary
from torchpipe.datasets.row_dataset import RowDataset
from torchpipe.datasets.row_number import row_number, row_of_sample
from torchpipe.datasets.sft import SFTDataset
from torchpipe.errors import DataError
from torchpipe.store import SFTRecipe, TokenStore, build_store
from torchpipe.store.accounts import ledger_summary, sample_counts
from torchpipe.store.refused_rows import first_refused
from torchpipe.store.rows import StoreRecipe, noun_of_kind
from torchpipe.store.source_recipe import SourceRecipe


class StoredDataset(Dataset[dict[str, torch.Tensor]]):
    """Samples that were tokenised once, read from a store that all processes of a machine share.

    The store is opened where it is there, and built where it is not. A row may have given several samples, or none
    (``overflow``, ``on_unproved``): items are samples, and :meth:`row_of` says of which row.

    Args:
        recipe: of the samples, or their store.
        cache_dir: where stores are kept; None: TORCHPIPE_CACHE, or ``~/.cache/torchpipe``.
        num_proc: processes that tokenise where there is no store yet; None: one a processor.

    Each item holds ``tokens`` and ``labels`` int64 [n], ``mask`` bool [n] (True = not trained; the first token, which
    nothing predicts, is), and ``loss_weights`` float32 [n] where samples have them.

    Attributes:
        name: what errors call the source.
        counts: what became of the rows.
        recipe: how the samples are made; None for a store that was given, and in a copy for another process.
        fingerprint: 32 hexadecimal digits that two share only if their items are equal.
        can_be_read_ahead: True, see :func:`~torchpipe.data.protocols.can_be_read_ahead`.

    Raises:
        StoreError: the store can't be written or read.
        DataError: no sample is left, or more rows can't be used than the recipe allows.
        Exception: the first bad row's own error.
    """

    can_be_read_ahead = True
    kinds_of_rows: ClassVar[Mapping[type[SourceRecipe], type[RowDataset]]] = {SFTRecipe: SFTDataset}
    """The map-style data set of a recipe's rows, where there is one that shows how a sample is made."""

    def __init__(
        self,
        recipe: StoreRecipe | TokenStore,
        *,
        cache_dir: str | Path | None = None,
        num_proc: int | None = None,
    ) -> None:
        is_store = isinstance(recipe, TokenStore)
        self.name = str(recipe.path) if is_store else recipe.name
        self._store = recipe if is_store else build_store(recipe, cache_dir=cache_dir, num_proc=num_proc)
        self.counts: SampleCounts = sample_counts(self._store)
        if not len(self):
            told = self.counts.describe(noun_of_kind(self.kind))
            raise DataError(f"{self.name}: no sample is left. {told}.{first_refused(self._store)}")
        self.fingerprint = self._store.digest
        self.recipe = None if is_store else recipe
        self._origin: Callable[[], Any] = partial(rows_of_recipe, recipe, self.kinds_of_rows)

    @property
    def ledger(self) -> LedgerSummary:
        """What became of the source's rows: counts by reason, and the first rows of each."""
        return ledger_summary(self._store)

    @property
    def store(self) -> TokenStore:
        """Where the samples are read from."""
        return self._store

    @property
    def kind(self) -> str | None:
        """What kind of samples they are, as the store says."""
        return self._store.kind

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sample: uint32 [samples]."""
        return self._store.lengths

    @property
    def trained_counts(self) -> np.ndarray:
        """The labels of each sample that are not -100: uint32 [samples]."""
        return self._store.trained_counts

    @cached_property
    def weight_sums(self) -> np.ndarray | None:
        """The sum of each sample's loss weights, float64 [samples]; None where they have none."""
        return self._store.weight_sums if self._store.has_weights else None

    @property
    def samples(self) -> RowDataset | None:
        """The rows, by the numbers of :meth:`row_of`, to look at one again; None where they aren't known."""
        return self._origin()

    def row_of(self, sample: int) -> tuple[int, int]:
        """The row that a sample was made of, and which of the row's samples it is."""
        return row_of_sample(self._rows, sample)

    @cached_property
    def _rows(self) -> np.ndarray:
        return self._store.rows

    def __len__(self) -> int:
        return self._store.num_samples

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        sample = self._store.sample(self._number(index))
        mask = np.ones(len(sample["tokens"]), dtype=np.bool_)
        np.equal(sample["labels"][:-1], IGNORE_INDEX, out=mask[1:])
        return {name: torch.from_numpy(array) for name, array in {**sample, "mask": mask}.items()}

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        return (self[index] for index in range(len(self)))

    def __getstate__(self) -> dict[str, Any]:
        kept = {key: value for key, value in self.__dict__.items() if key not in ("_rows", "weight_sums")}
        return {**kept, "_origin": _unknown, "recipe": None}

    def _number(self, index: int) -> int:
        """An item's number from the start on.

        Raises:
            IndexError: there is no such item.
        """
        index = row_number(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"{self._item} {index} was asked for, and {self.name} has {len(self)} {self._items}.")
        return index % len(self)

    _item, _items = "Sample", "samples"


def rows_of_recipe(recipe: Any, kinds: Mapping[type[SourceRecipe], type[RowDataset]]) -> RowDataset | None:
    """The rows of a recipe, numbered as a store numbers them; None where none of the kinds is of the recipe's class."""
    kind = kinds.get(type(recipe))
    return None if kind is None else kind.of_recipe(recipe, as_stored=True)


def _unknown() -> None:
    """The rows of a copy in another process."""
