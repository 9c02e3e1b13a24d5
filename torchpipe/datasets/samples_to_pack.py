"""What packs are made of: samples of a store or in memory, and the plan of which share a row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from torchpipe._progress import track
from torchpipe._seeds import derive, hashed_permutation
from torchpipe.data.ledger import SampleCounts
from torchpipe.data.ledger_summary import LedgerSummary
from torchpipe.data.packing import PackPlan, PackPlanner, SampleTokens, pack_planner, plan_packs
from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.data.row_policy import Refused
from torchpipe.datasets.first_packs import asked_for
from torchpipe.datasets.preference import StoredPreferenceDataset
from torchpipe.datasets.row_dataset import RowDataset, left_out_before
from torchpipe.datasets.stored import StoredDataset, rows_of_recipe
from torchpipe.errors import ConfigError, DataError, NoFingerprint, located
from torchpipe.store import TokenStore
from torchpipe.store.accounts import sample_counts
from torchpipe.store.build import build_store, find_store
from torchpipe.store.dataset_recipe import DatasetRecipe
from torchpipe.store.flat_samples import FlatSamples
from torchpipe.store.memory_samples import MemorySamples
from torchpipe.store.plans import stored_plan
from torchpipe.store.refused_rows import first_refused
from torchpipe.store.rows import RowSamples, StoreRecipe, keeps_rows_whole, kind_of, noun_of_kind, refuse_to_pack

_KINDS_OF_ROWS = {**StoredDataset.kinds_of_rows, **StoredPreferenceDataset.kinds_of_rows}

_IN_ORDER = ("next_fit", "concat_then_split", "first_fit", "best_fit")
"""Strategies whose first packs depend on the first samples alone."""


class Samples(SampleTokens, Protocol):
    """Tokenised samples by number, and what is known of each without reading it."""

    lengths: np.ndarray
    trained_counts: np.ndarray
    num_samples: int
    digest: str
    ledger: dict[str, int]

    @property
    def left_out(self) -> np.ndarray:
        """The rows that have no sample, and the code of the reason: int64 [rows left out, 2]."""
        ...

    @property
    def rows(self) -> np.ndarray:
        """The row that each sample came from, int64 [samples]."""
        ...

    @property
    def weight_sums(self) -> np.ndarray:
        """The sum of each sample's loss weights over the labels that are not -100: float64 [samples]."""
        ...

    def trained_in(self, sample: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """How many labels of each span are not -100: int64 [spans]."""
        ...


class JoinedStores(Protocol):
    """A data set whose rows are samples of several stores, where all of its parts are stored.

    Attributes:
        name: what errors call it.
        counts: what became of the rows of its parts, as ledger.
    """

    name: str
    counts: SampleCounts

    @property
    def ledger(self) -> LedgerSummary:
        """What became of the rows of its parts, each counted once."""
        ...

    def stored_samples(self) -> Samples | None:
        """Its rows as samples; None where a part has no store."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class PackedSamples:
    """Samples, the plan of their packs, and what became of the rows that they came from.

    Attributes:
        name: what errors call the samples.
        samples: of a store, or in memory.
        plan: which of them share a pack.
        counts: what became of the rows; those of packs that the plan leaves out are counted.
        origin: gives the data set whose rows they are of, to look at one again; None where it isn't known.
        recipe: how they are made; None where that isn't known.
        num_rows: rows that were read.
        by_row: whether samples of a row share a pack.
        ledger_of_parts: what became of the rows, where the samples are those of several stores.
    """

    name: str
    samples: Samples
    plan: PackPlan
    counts: SampleCounts
    origin: Callable[[], Any]
    num_rows: int
    recipe: StoreRecipe | None = None
    by_row: bool = False
    ledger_of_parts: LedgerSummary | None = None

    def replanned(self, capacity: int, options: Mapping[str, Any]) -> "PackedSamples":
        """The same samples with another plan."""
        return replace(self, plan=_planned(self.samples, capacity, options, self.name, by_row=self.by_row))

    def without_origin(self) -> "PackedSamples":
        """A copy for another process."""
        return replace(self, origin=_unknown, recipe=None)

    def ledger(self) -> LedgerSummary:
        """What became of the rows, those included that a data set of one's own left out before it gave its samples."""
        if self.ledger_of_parts is not None:
            return self.ledger_of_parts
        summary = LedgerSummary.of_pairs(read=self.num_rows, left_out=self.samples.left_out)
        dataset = self.recipe.dataset if isinstance(self.recipe, DatasetRecipe) else None
        return summary.after(left_out_before(dataset))

    def trained_counts(self) -> np.ndarray:
        """The labels of each pack that are not -100: int64 [packs]."""
        return self._a_pack(self.samples.trained_in(*self._spans))

    def weight_sums(self) -> np.ndarray | None:
        """The sum of each pack's loss weights over the labels that are not -100: float64 [packs]; None without."""
        if not self.samples.has_weights:
            return None
        sample, start, stop = self._spans
        sums = self.samples.weight_sums[sample]
        for span in np.flatnonzero((start > 0) | (stop < self.samples.lengths[sample])):
            one = slice(span, span + 1)
            size = int(stop[span] - start[span])
            labels, weights = np.empty(size, np.int64), np.empty(size, np.float32)
            self.samples.gather(
                sample[one], start[one], stop[one], tokens=np.empty_like(labels), labels=labels, loss_weights=weights
            )
            sums[span] = weights[labels >= 0].sum(dtype=np.float64)
        return self._a_pack(sums)

    @property
    def _spans(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.plan.sample, self.plan.start, self.plan.stop

    def _a_pack(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, self.plan.pack_offsets[:-1]) if len(self.plan) else values[:0]


def samples_to_pack(
    ds: RandomAccessDataSource[Any] | StoreRecipe | TokenStore,
    capacity: int,
    max_packs: int | None,
    options: Mapping[str, Any],
    *,
    cache_dir: str | Path | None,
    num_proc: int | None,
    by_row: bool | None = None,
) -> tuple[PackedSamples, bool]:
    """What a data set gives to pack, with a plan of its packs; and whether that is less than it has.

    Args:
        ds, max_packs, cache_dir, num_proc, by_row: see :class:`~torchpipe.datasets.PackedDataset`.
        capacity: tokens of a pack.
        options: of :func:`~torchpipe.data.packing.plan_packs`.
    """
    refuse_to_pack(kind_of(ds))
    asked = asked_for()
    limit = max_packs if asked is None else asked.at_most(max_packs)
    reads_first_alone = limit is not None and options["strategy"] in _IN_ORDER
    parts = _joined(ds)
    joined = parts.stored_samples() if parts is not None and cache_dir is None else None
    store = ds if isinstance(ds, TokenStore) else ds.store if isinstance(ds, StoredDataset) else None
    recipe = ds.recipe if isinstance(ds, StoredDataset) else None
    if store is None and joined is None:
        recipe = _recipe_of(ds)
    by_row = keeps_rows_whole(recipe or store) if by_row is None else by_row
    if recipe is not None and store is None and _is_stored(recipe, wants_store=cache_dir is not None):
        # A look at the first packs uses a store, and does not build one if a few rows are enough.
        is_look = asked is not None and limit != max_packs and reads_first_alone
        find = find_store if is_look else partial(build_store, num_proc=num_proc)
        store = find(recipe, cache_dir=cache_dir)
    if joined is not None and parts is not None:
        samples, name, counts = joined, parts.name, replace(parts.counts)
        num_rows = num_read = joined.num_samples + counts.left_out_rows
    elif store is not None:
        name = str(store.path) if recipe is None else recipe.name
        samples, counts, num_rows, num_read = store, sample_counts(store), store.num_rows, store.num_rows
    else:
        assert recipe is not None
        rows = recipe.open()
        planner = pack_planner(capacity=capacity, **options) if reads_first_alone else None
        samples, num_read = _read(rows, planner, limit or 0, by_row=by_row)
        name, counts, num_rows = rows.name, samples.counts(), rows.num_rows
    if isinstance(recipe, DatasetRecipe):  # before they were rows of this data set
        for reason, number in left_out_before(recipe.dataset).items():
            setattr(counts, f"{reason}_rows", getattr(counts, f"{reason}_rows") + number)
    if not samples.num_samples and num_read:
        first = "" if store is None else first_refused(store)
        raise DataError(f"{name}: no sample is left to pack. {counts.describe(noun_of_kind(kind_of(ds)))}.{first}")
    whole = _planned(samples, capacity, options, name, by_row=by_row)
    plan = whole if limit is None or limit >= len(whole) else whole.take(_kept(len(whole), limit, options))
    origin = partial(_origin, ds, recipe)
    packed = PackedSamples(
        name=name,
        samples=samples,
        plan=plan,
        counts=counts,
        origin=origin,
        num_rows=num_read,
        recipe=recipe,
        by_row=by_row,
        ledger_of_parts=parts.ledger if joined is not None and parts is not None else None,
    )
    is_cut = len(plan) < len(whole) or num_read < num_rows
    if is_cut:
        _count_what_is_left(packed, num_rows)
    return packed, is_cut


def _joined(ds: Any) -> JoinedStores | None:
    """The data set, if it is of a class that joins others; its attributes are not asked for, since the ledger of rows
    that are not stored reads all of them.
    """
    return ds if hasattr(type(ds), "stored_samples") else None


def _kept(num_packs: int, limit: int, options: Mapping[str, Any]) -> np.ndarray:
    """The packs that a limit keeps: the first ones, or, where the longest samples come first, some by a hash."""
    if options["strategy"] in _IN_ORDER:
        return np.arange(limit)
    return np.sort(hashed_permutation(num_packs, derive(0, "max_packs"))[:limit])


def _recipe_of(ds: Any) -> StoreRecipe:
    """How the samples of a data set come about."""
    if isinstance(ds, RowDataset):
        return ds.recipe
    if isinstance(ds, StoreRecipe):
        return ds
    if isinstance(ds, RandomAccessDataSource) and not isinstance(ds, Mapping | str | bytes):
        return DatasetRecipe(dataset=ds)
    raise ConfigError(f"PackedDataset packs objects with __len__ and __getitem__, and got a {type(ds).__name__}.")


def _is_stored(recipe: StoreRecipe, *, wants_store: bool) -> bool:
    """Whether samples belong in a store. Those of a data set of the user's own do if it says by a ``fingerprint()``
    what it holds; the others are held in memory.
    """
    if wants_store or not isinstance(recipe, DatasetRecipe):
        return True
    if not callable(getattr(recipe.dataset, "fingerprint", None)):
        return False
    try:
        recipe.key_fields()
    except NoFingerprint:
        return False  # such as that of joined data sets of which one has none
    return True


def _origin(ds: Any, recipe: StoreRecipe | None) -> Any:
    """The rows that samples are of."""
    if isinstance(ds, RowDataset) and not ds.num_filtered and not ds.num_left_out:
        return ds
    if (rows := rows_of_recipe(recipe, _KINDS_OF_ROWS)) is not None:
        return rows
    return None if isinstance(ds, list | tuple | TokenStore) else ds


def _unknown() -> None:
    """The origin of samples in another process."""


def _read(rows: RowSamples, planner: PackPlanner | None, num_packs: int, *, by_row: bool) -> tuple[MemorySamples, int]:
    """Samples in memory, and how many rows they are of: as many as it takes for a planner to close so many packs."""
    flat = FlatSamples(name=rows.name, vocab_size=rows.vocab_size, samples_a_row=rows.samples_a_row)
    num_read = num_samples = num_closed = 0
    for row in track(range(rows.num_rows), "Packing"):
        if planner is not None and num_read and num_closed >= num_packs:
            break
        made = rows.samples_of(row)
        flat.add_row(row, made)
        num_read += 1
        if planner is not None and not isinstance(made, str | Refused):
            lengths = [len(sample["tokens"]) for sample in made]
            for num_tokens in [sum(lengths)] if by_row else lengths:
                num_closed += len(planner.push(num_samples, num_tokens))
                num_samples += 1
    return MemorySamples(flat, num_rows=num_read), num_read


def _planned(samples: Samples, capacity: int, options: Mapping[str, Any], name: str, *, by_row: bool) -> PackPlan:
    group = samples.rows if by_row else None
    try:
        if isinstance(samples, TokenStore):
            return stored_plan(samples, capacity, options, group=group)
        return plan_packs(samples.lengths, capacity, group=group, **options)
    except DataError as error:
        raise located(error, name) from None


def _count_what_is_left(packed: PackedSamples, num_rows: int) -> None:
    """Counts anew what the kept packs hold, of which the last sample may be a part."""
    counts, plan = packed.counts, packed.plan
    used = np.unique(plan.sample)
    counts.rows = len(used)
    counts.dropped_rows = num_rows - counts.left_out_rows - len(np.unique(packed.samples.rows[used]))
    counts.tokens = int(plan.num_tokens.sum())
    counts.trained_tokens = int(packed.trained_counts().sum())
