"""The data sets of a config's section, as their lengths tell them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from torchpipe.data.ledger import REASONS, SampleCounts
from torchpipe.data.overflow import OverflowPolicy, without_limit
from torchpipe.data.packing import CostModel, PackPlan
from torchpipe.datasets import (
    ConcatDataset,
    GrowingPackedDataset,
    MixDataset,
    PackedDataset,
    StoredDataset,
    count_samples,
    refuse_other_than_samples,
)
from torchpipe.errors import ConfigError, DataError
from torchpipe.store import SFTRecipe, TokenStore, build_store
from torchpipe.store.accounts import checked_ledger


class Trained(Protocol):
    """Samples of which it is known which tokens are trained: a store, or in memory."""

    def trained_in(self, sample: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """How many labels of each span are not -100: int64 [spans]."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class WholeSamples:
    """Samples that no length has cut.

    Attributes:
        lengths: int64 [samples], their tokens.
        rows: int64 [samples], the row that each is of.
        content: which of their tokens are trained; None where that isn't kept.
    """

    lengths: np.ndarray
    rows: np.ndarray
    content: Trained | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """One data set of a section, read.

    Attributes:
        name: what errors call it.
        dataset: the data set.
        options: ``cache_dir`` and ``num_proc`` of its section.
        counts: what became of its rows.
        ledger: rows read, stored, and left out under each reason; every row that was read has one fate.
        lengths: tokens of each sample, before packing.
        plan: which samples share a pack; None where it is not packed.
        recipe: how its samples are made of rows, where that is known.
        holds_images: whether a sample has more than tokens.
    """

    name: str
    dataset: Any
    options: Mapping[str, Any]
    counts: SampleCounts
    ledger: Mapping[str, int]
    lengths: np.ndarray
    plan: PackPlan | None
    recipe: SFTRecipe | None
    holds_images: bool = False

    @property
    def policy(self) -> OverflowPolicy | None:
        """What its section's ``overflow`` does with rows that are too long; None where it has none."""
        return None if self.recipe is None else self.recipe.overflow

    @property
    def is_whole(self) -> bool:
        """Whether every row that was read is in it as it stands: none was cut, split, or left out for its length."""
        counts = self.counts
        return not (counts.truncated_rows or counts.split_rows or counts.too_long_rows or counts.emptied_rows)

    @cached_property
    def whole(self) -> "WholeSamples":
        """The samples as if no length were set. Where rows were cut, all are tokenised in full, once; the store is kept
        beside the others.

        Raises:
            ConfigError: they hold images; or it isn't known how the samples are made, or the tokenizer's length can't
                be taken away.
        """
        if self.holds_images:
            raise ConfigError(f"Packs are not compared: rows of {self.name} hold images, and packs hold text alone.")
        if self.plan is not None and isinstance(self.dataset, MixDataset):
            raise ConfigError(
                f"Packs are not compared: {self.name} mixes packs that each data set has made alone. Pack the mix."
            )
        if self.is_whole:
            content = getattr(self.dataset, "content", getattr(self.dataset, "store", None))
            rows = np.arange(len(self.lengths)) if content is None else content.rows
            return WholeSamples(lengths=self.lengths.astype(np.int64), rows=rows, content=content)
        if self.recipe is None:
            raise ConfigError(
                f"Rows of {self.name} were cut, and how they are tokenised isn't known, so that other lengths can't be "
                "compared. Compare strategies alone."
            )
        recipe = replace(
            self.recipe,
            overflow=None,
            model_transform=without_limit(self.recipe.model_transform),
            row_policy=self.recipe.row_policy.without_file(),
        )
        store = build_store(recipe, **self.options)
        return WholeSamples(lengths=store.lengths.astype(np.int64), rows=store.rows, content=store)

    def costs(self, cost: CostModel) -> np.ndarray:
        """What each item costs: int64 [packs, or samples where it is not packed]; a pack's padding counts."""
        return cost(self.lengths) if self.plan is None else self.plan.costs(cost)


def parts_of(dataset: Any, section: Any) -> list[Part]:
    """The data sets that a section gave, in order; of each, every row is read or known from its store. A mix is one.

    Args:
        dataset: what :func:`~torchpipe.datasets.instantiate_dataset` made of ``section``.
        section: a mapping, or a list of them.

    Raises:
        DataError: rows are in no set of the ledger, or in two.
        ConfigError: the data set is packed shard by shard while it trains.
        Exception: a bad row's own error, which names it.
    """
    sections: list[Any] = list(section) if isinstance(section, Sequence) and not isinstance(section, str) else [section]
    datasets = dataset.datasets if isinstance(dataset, ConcatDataset) else [dataset]
    if len(sections) != len(datasets):
        sections = [sections[0]] * len(datasets)  # joined by a component of the user's own
    found = []
    for one, options in zip(datasets, sections, strict=True):
        if isinstance(one, ConcatDataset):
            found += parts_of(one, options)
        else:
            found.append(_part(one, {key: options.get(key) for key in ("cache_dir", "num_proc")}))
    return found


def _part(dataset: Any, options: Mapping[str, Any]) -> Part:
    name = getattr(dataset, "name", None)
    plan: PackPlan | None = None
    holds_images = False
    if isinstance(dataset, GrowingPackedDataset):
        raise ConfigError(
            f"{dataset.name} has start='by_shard', which plans each shard on its own while it trains. Look at all rows "
            "with dataset.start=when_complete, and without dataset.shard_rows (~dataset.shard_rows)."
        )
    if isinstance(dataset, PackedDataset | StoredDataset):
        samples = dataset.content if isinstance(dataset, PackedDataset) else dataset.store
        counts, lengths = dataset.counts, samples.lengths
        plan = dataset.plan if isinstance(dataset, PackedDataset) else None
        ledger = checked_ledger(samples) if isinstance(samples, TokenStore) else dict(samples.ledger)
        rows_before = counts.filtered_rows - ledger.get("filtered", 0)  # that a filter left out before packing
    elif isinstance(dataset, MixDataset) and hasattr(dataset, "counts"):
        counts, lengths, plan = dataset.counts, dataset.lengths, _plan_of_mixed_packs(dataset)
        ledger, rows_before = {"read": len(dataset), "stored": len(dataset)}, 0
    else:
        read: list[int] = []

        def look(sample: Mapping[str, Any]) -> None:
            nonlocal holds_images
            refuse_other_than_samples(sample, dataset, "A plan is made of")
            read.append(len(sample["tokens"]))
            holds_images |= "encoder_input" in sample

        counts = count_samples(dataset, each=look)
        lengths, ledger = np.array(read, dtype=np.int64), {"read": len(dataset), "stored": len(dataset)}
        rows_before = counts.filtered_rows
    if rows_before:
        ledger |= {"read": ledger["read"] + rows_before, "filtered": ledger.get("filtered", 0) + rows_before}
    if ledger["read"] != ledger["stored"] + sum(ledger.get(reason, 0) for reason in REASONS):
        raise DataError(f"The ledger of {name} does not cover its rows: {dict(ledger)}.")
    return Part(
        name=str(name or type(dataset).__name__),
        dataset=dataset,
        options=options,
        counts=counts,
        ledger=ledger,
        lengths=lengths,
        plan=plan,
        recipe=_recipe_of(dataset),
        holds_images=holds_images,
    )


def _plan_of_mixed_packs(mix: MixDataset) -> PackPlan | None:
    """The packs of a mix of packed data sets in one plan; None where the mix is of rows.

    Raises:
        ConfigError: it mixes packs of data sets that were joined before.
    """
    if not mix.packed:
        return None
    if not all(isinstance(dataset, PackedDataset) for dataset in mix.datasets):
        raise ConfigError(f"{mix.name}: joined or mixed packs are mixed again, and such steps are not planned here.")
    plans: list[PackPlan] = [dataset.plan for dataset in mix.datasets]
    firsts = np.cumsum([0, *(plan.num_samples for plan in plans)])
    spans = np.cumsum([0, *(len(plan.sample) for plan in plans)])
    whole = PackPlan(
        sample=np.concatenate([plan.sample + first for plan, first in zip(plans, firsts, strict=False)]),
        start=np.concatenate([plan.start for plan in plans]),
        stop=np.concatenate([plan.stop for plan in plans]),
        pack_offsets=np.concatenate(
            [[0], *(plan.pack_offsets[1:] + before for plan, before in zip(plans, spans, strict=False))]
        ),
        pack_lens=np.concatenate([plan.pack_lens for plan in plans]),
        num_samples=int(firsts[-1]),
    )
    packs = np.cumsum([0, *map(len, plans)])
    return whole.take(mix.chosen([np.arange(packs[at], packs[at + 1]) for at in range(len(plans))]))


def _recipe_of(dataset: Any) -> SFTRecipe | None:
    """How samples are made of rows, where a data set of ours makes them."""
    recipe = getattr(dataset, "recipe", None)
    return recipe if isinstance(recipe, SFTRecipe) else None
