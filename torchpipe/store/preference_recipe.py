"""The recipe of a store whose rows become pairs of samples, a preferred one and one that was rejected."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torchpipe.data.pair_policy import PairPolicy
from torchpipe.data.pair_transform import PairTransform
from torchpipe.data.protocols import Transform
from torchpipe.store.rows import KIND_OF_PAIRS
from torchpipe.store.source_recipe import SourceRecipe, SourceRows, is_trained, vocab_size_of


@dataclass(frozen=True, kw_only=True, eq=False)
class PreferenceRecipe(SourceRecipe):
    """What :class:`~torchpipe.datasets.PreferenceDataset` is given, as a :class:`~torchpipe.store.rows.StoreRecipe`.

    Each row that is used gives two samples, one after the other: the chosen one, and the rejected one.

    Attributes:
        message_transform: row to ``{"chosen": [...], "rejected": [...]}``.
        model_transform: the tokenizer.
        policy: what becomes of pairs that are too long or compare nothing.

    The others are those of :class:`~torchpipe.store.source_recipe.SourceRecipe`.

    Raises:
        ConfigError: what PairTransform or SourceRecipe refuses.
    """

    kind: ClassVar[str] = KIND_OF_PAIRS
    version: ClassVar[str] = "1"
    keeps_rows_whole: ClassVar[bool] = True

    message_transform: Transform
    model_transform: Transform
    policy: PairPolicy = field(default_factory=PairPolicy)

    def transform(self) -> PairTransform:
        """What makes a pair of a row."""
        return PairTransform(self.message_transform, self.model_transform, policy=self.policy)

    def deciding(self) -> Mapping[str, Any]:
        """The transforms, and what becomes of pairs that can't be used as they are."""
        return {
            "message_transform": self.message_transform,
            "model_transform": self.transform().whole_transform,
            "policy": self.policy,
        }

    @property
    def vocab_size(self) -> int | None:
        """The tokenizer's, where it says it."""
        return vocab_size_of(self.model_transform)

    def open(self) -> "PairRows":
        """The rows, opened."""
        return PairRows(self)


class PairRows(SourceRows):
    """Rows of a source and their pairs of samples."""

    samples_a_row = 2

    def trains(self, samples: Sequence[Mapping[str, Any]]) -> bool:
        """Whether both samples of a pair have something to train: a side without compares nothing."""
        return all(map(is_trained, samples))
