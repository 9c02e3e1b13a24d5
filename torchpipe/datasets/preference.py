"""Data sets of pairs: two answers to one prompt, one of them preferred."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.pair_policy import PairPolicy
from torchpipe.data.pair_transform import SIDES
from torchpipe.data.protocols import Transform
from torchpipe.data.row_policy import OnUntrained, RowPolicy
from torchpipe.data.sequences import unshifted
from torchpipe.datasets.row_dataset import RowDataset
from torchpipe.datasets.stored import StoredDataset
from torchpipe.errors import ConfigError
from torchpipe.sources import Source
from torchpipe.store.preference_recipe import PreferenceRecipe
from torchpipe.store.source_recipe import SourceRecipe


class PreferenceDataset(RowDataset):
    """Rows with two answers, turned into pairs of samples when they are asked for. Construction tokenises nothing.

    Args:
        source: a name for ``load_dataset``, or any object with ``__len__`` and ``__getitem__``, or a
            ``Configurable.Config`` that builds one.
        message_transform: row to ``{"chosen": [...], "rejected": [...]}``, two lists of messages.
        tokenizer: the model transform; of text alone.
        filter_fn: keeps the rows for which it is true; runs once, before any transform. A function, or the dotted name
            of one (the form for YAML).
        packed: is False; pairs are packed by :func:`preference_dataset`, or by
            :class:`~torchpipe.datasets.PackedDataset` of this data set.
        filter_kwargs: further arguments of the ``filter`` of Hugging Face data sets (``num_proc``, ...).
        policy: what becomes of pairs that are too long, whose answers are equal or whose prompts differ; None is the
            default :class:`~torchpipe.data.pair_policy.PairPolicy`.
        on_untrained: what becomes of a pair with a side that trains nothing: "leave_out" does it where the data set is
            packed (here, it stays and the first one warns), "keep", "raise".
        load_dataset_kwargs: passed to ``load_dataset``: ``split``, ``data_files``, ``data_dir``, ``name``, ...

    Each item holds ``chosen_input_ids``, ``chosen_labels``, ``rejected_input_ids`` and ``rejected_labels``: lists of
    integers. Labels are *unshifted*: each token that is trained, at its own place
    (:func:`~torchpipe.data.sequences.unshifted_labels`), -100 elsewhere. What both conversations begin with is their
    prompt, and is never trained. An error in a row names the row and its file.

    Attributes:
        name: what errors call the source.
        num_filtered: rows that ``filter_fn`` left out.
        rows: those that are left; transform: what makes a pair of one.
        recipe: all of this, as a store is built from it.

    Raises:
        SourceError: nothing is there, or no row is left.
        ConfigError: an option does not fit.
    """

    def __init__(
        self,
        *,
        source: Source,
        message_transform: Transform,
        tokenizer: Transform,
        filter_fn: Callable[..., bool] | str | None = None,
        packed: bool = False,
        filter_kwargs: Mapping[str, Any] | None = None,
        policy: PairPolicy | None = None,
        on_untrained: OnUntrained = "leave_out",
        **load_dataset_kwargs: Any,
    ) -> None:
        if packed:
            raise ConfigError(
                "packed=True of a PreferenceDataset: its items are single pairs. Call preference_dataset with "
                "packed=True, or wrap this data set in PackedDataset."
            )
        recipe = PreferenceRecipe(
            source=source,
            load_dataset_kwargs=load_dataset_kwargs,
            message_transform=message_transform,
            model_transform=tokenizer,
            filter_fn=filter_fn,
            filter_kwargs=filter_kwargs,
            policy=policy or PairPolicy(),
            row_policy=RowPolicy(on_untrained=on_untrained),
        )
        self._open(recipe, filters=True, one_sample_a_row=True)

    fingerprint = RowDataset.fingerprint  # its own: what a class inherits does not speak for all it holds

    @classmethod
    def refuse_other_than_one(cls, recipe: SourceRecipe) -> None:
        """Refuses a recipe that gives a row no pair: here, row k is pair k.

        Raises:
            ConfigError: it may; the sentence says which option.
        """
        assert isinstance(recipe, PreferenceRecipe)
        if recipe.policy.overflow == "drop":
            raise ConfigError(
                "overflow='drop' gives a row no pair, and each row of a PreferenceDataset is one. Pack it "
                "(packed=True) or store it (cache=True), or set overflow to 'truncate' or 'error'."
            )
        super().refuse_other_than_one(recipe)

    nothing_to_train = "a side without a token that is trained"

    def trains(self, item: Mapping[str, Any]) -> bool:
        """Whether both sides of a pair train something."""
        return all(any(label != IGNORE_INDEX for label in item[f"{side}_labels"]) for side in SIDES)


class StoredPreferenceDataset(StoredDataset):
    """Pairs that were tokenised once, read from a store that all processes of a machine share.

    Arguments, attributes and errors are those of :class:`~torchpipe.datasets.StoredDataset`; an item is a pair, of two
    samples of the store that lie one after the other, with the keys of :class:`PreferenceDataset`: int64 [n] each.
    ``lengths`` and ``trained_counts`` are sums of both sides.
    """

    kinds_of_rows: ClassVar[Mapping[type[SourceRecipe], type[RowDataset]]] = {PreferenceRecipe: PreferenceDataset}

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each pair, both sides together: int64 [pairs]."""
        return _of_pairs(self._store.lengths)

    @property
    def side_lengths(self) -> np.ndarray:
        """Tokens of the chosen and the rejected side of each pair: uint32 [pairs, 2]."""
        return self._store.lengths.reshape(-1, len(SIDES))

    @property
    def trained_counts(self) -> np.ndarray:
        """The labels of each pair that are not -100, both sides together: int64 [pairs]."""
        return _of_pairs(self._store.trained_counts)

    def row_of(self, sample: int) -> tuple[int, int]:
        """The row that a pair was made of, and 0, for a row gives one pair."""
        row, _ = super().row_of(len(SIDES) * self._number(sample))
        return row, 0

    def __len__(self) -> int:
        return self._store.num_samples // len(SIDES)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        pair = self._number(index)
        item: dict[str, torch.Tensor] = {}
        for place, side in enumerate(SIDES):
            sample = self._store.sample(len(SIDES) * pair + place)
            item[f"{side}_input_ids"] = torch.from_numpy(sample["tokens"])
            item[f"{side}_labels"] = torch.from_numpy(unshifted(sample["labels"]))
        return item

    _item, _items = "Pair", "pairs"


def _of_pairs(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, len(SIDES)).sum(axis=1, dtype=np.int64)
