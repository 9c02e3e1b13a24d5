"""The recipe of a store whose samples any map-style data set gives."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torchpipe._suggest import listed
from torchpipe.data.overflow import Fitted
from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.errors import ColumnError
from torchpipe.sources.identity import object_fingerprint
from torchpipe.store.rows import Made, RowSamples
from torchpipe.store.source_recipe import vocab_size_of


@dataclass(frozen=True, kw_only=True, eq=False)
class DatasetRecipe:
    """A data set with ``__len__`` and ``__getitem__``, as a :class:`~torchpipe.store.rows.StoreRecipe`.

    Attributes:
        dataset: it gives ``tokens`` and ``labels`` (or ``mask``) of equal length, and ``loss_weights`` where it has
            them; one with ``fitted`` may give several samples a row, or none.
    """

    dataset: RandomAccessDataSource[Any]

    @property
    def name(self) -> str:
        """What errors call the samples."""
        return str(getattr(self.dataset, "name", type(self.dataset).__name__))

    def key_fields(self) -> dict[str, str]:
        """What tells the data set from others: what it holds, or says of itself by ``fingerprint()``.

        Raises:
            NoFingerprint: it doesn't say what it holds.
        """
        return {"kind": "dataset", "source": self.name, "source.samples": object_fingerprint(self.dataset)}

    def open(self) -> "DatasetRows":
        """The data set's samples."""
        return DatasetRows(self.dataset, self.name)


class DatasetRows(RowSamples):
    """The samples of a data set, read by number."""

    def __init__(self, dataset: RandomAccessDataSource[Any], name: str) -> None:
        self.name = name
        self.num_rows = len(dataset)
        self.vocab_size = vocab_size_of(getattr(getattr(dataset, "transform", None), "model_transform", None))
        self._dataset = dataset
        self._fitted = getattr(dataset, "fitted", None)

    def samples_of(self, row: int) -> Made:
        """The samples of a row: as many as the data set makes of it, or the one that it gives."""
        if self._fitted is not None:
            fitted: Fitted = self._fitted(row)
            return fitted.samples if fitted.left_out is None else fitted.left_out
        sample: Any = self._dataset[row]
        if not isinstance(sample, Mapping):
            raise ColumnError(f"Sample {row} has no {listed(['tokens'])}; it has a {type(sample).__name__}.")
        return [sample]
