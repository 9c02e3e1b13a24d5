"""The nodes of a graph that put several documents into one row."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.overflow import Overflow
from torchpipe.errors import ConfigError
from torchpipe.pipeline.dataset import check_name, check_node
from torchpipe.pipeline.types import DatasetBuildContext, DatasetIterationPolicy

if TYPE_CHECKING:
    from torchpipe.pipeline.dataset import GrainDataset

LastRow = Literal["drop", "pad"]
"""What becomes of the row that is not full when the rows below end: left out and counted, or filled with padding."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConcatThenSplitPackingConfig:
    """All documents one after the other, cut where a row of ``num_tokens_per_batch`` is full.

    A document is cut also after ``max_context_length`` tokens. What of it stands in the next row is a document of its
    own there, whose positions begin at 0.

    With the context's ``max_num_documents`` a row ends with that many documents, and is filled with padding.

    Attributes:
        dataset: whose rows are packed: any node, also one that packs.
        last_row: see :data:`LastRow`.
        name: what errors call it.
    """

    dataset: Any
    last_row: LastRow = "drop"
    name: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        check_node(self.dataset, "The dataset of a ConcatThenSplitPackingConfig")
        _check_word("last_row", self.last_row, get_args(LastRow))

    def build(
        self, *, context: DatasetBuildContext, dataset_iteration_policy: DatasetIterationPolicy
    ) -> "GrainDataset":
        """A ``grain.IterDataset`` of :class:`~torchpipe.pipeline.TextSequence`, of ``num_tokens_per_batch`` each."""
        from torchpipe.pipeline.by_grain.concat_rows import built_concat_rows

        return built_concat_rows(self, context, dataset_iteration_policy)


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstFitPackingConfig:
    """Each row of the data set as a whole into one row of ``num_tokens_per_batch`` that has room for it.

    A row holds at most the context's ``max_num_documents`` documents.

    Attributes:
        dataset: whose rows are packed: any node, also one that packs.
        num_packing_bins: rows that are open at a time, where samples are packed as they come.
        overflow: what becomes of a document of more than ``max_context_length`` tokens, and of a row of more than
            ``num_tokens_per_batch`` tokens or ``max_num_documents`` documents: see
            :data:`~torchpipe.data.overflow.Overflow`.
        strategy: how a planned graph packs, see :data:`~torchpipe.data.packing.Strategy`. Where samples are packed as
            they come, ``"first_fit"`` takes the row that was opened first, ``"next_fit"`` the one that is open, and all
            others the fullest that has room. ``"next_fit"`` leaves documents in the order in which they come: a row
            holds as many, one after the other, as it has room for.
        name: what errors call it.
    """

    dataset: Any
    num_packing_bins: int = 8
    overflow: Overflow = "drop"
    strategy: str = "best_fit_decreasing"
    name: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        check_node(self.dataset, "The dataset of a FirstFitPackingConfig")
        _check_bins(self.num_packing_bins)
        _check_word("overflow", self.overflow, get_args(Overflow))
        _check_word("strategy", self.strategy, ("best_fit_decreasing", "best_fit", "first_fit", "next_fit"))

    def build(
        self, *, context: DatasetBuildContext, dataset_iteration_policy: DatasetIterationPolicy
    ) -> "GrainDataset":
        """A ``grain.IterDataset`` of :class:`~torchpipe.pipeline.TextSequence`, of ``num_tokens_per_batch`` each."""
        from torchpipe.pipeline.by_grain.fit_rows import built_fit_rows

        return built_fit_rows(self, context, dataset_iteration_policy)


@dataclass(frozen=True, kw_only=True, slots=True)
class MMSamplePackingConfig:
    """Samples of text and images, each as a whole, several to a row. Samples that are too long are left out.

    Attributes:
        dataset: whose samples are packed, mappings with ``input_ids``, ``labels``, ``positions`` and lists of media
            (``pixel_values``, ``pixel_values_videos``).
        num_packing_bins: rows that are open at a time.
        max_images_per_row: the most media of a row, so that no batch has more than its collator takes; None: no limit.
        name: what errors call it.
    """

    dataset: Any
    num_packing_bins: int = 8
    max_images_per_row: int | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        check_node(self.dataset, "The dataset of an MMSamplePackingConfig")
        _check_bins(self.num_packing_bins)
        most = self.max_images_per_row
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise ConfigError(f"max_images_per_row is {most!r}. Give a whole number, 1 or more, or leave it out.")

    def build(
        self, *, context: DatasetBuildContext, dataset_iteration_policy: DatasetIterationPolicy
    ) -> "GrainDataset":
        """A ``grain.IterDataset`` of dicts, whose ``input_ids``, ``labels``, ``positions`` and ``padding_mask`` have
        ``num_tokens_per_batch`` entries, and whose lists hold the media of all samples, in order.
        """
        from torchpipe.pipeline.by_grain.fit_rows import built_fit_rows

        return built_fit_rows(self, context, dataset_iteration_policy)


def _check_bins(num_packing_bins: object) -> None:
    if isinstance(num_packing_bins, bool) or not isinstance(num_packing_bins, int) or num_packing_bins < 1:
        raise ConfigError(f"num_packing_bins must be positive; it is {num_packing_bins!r}. Give a whole number.")


def _check_word(field: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{field} is {value!r}. It is one of {listed(allowed)}.{did_you_mean(value, allowed)}")
