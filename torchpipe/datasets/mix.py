"""Several data sets, mixed by weights."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from torchpipe._fingerprint import fingerprint
from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.ledger import SampleCounts, sum_of_counts
from torchpipe.data.mix_source import MixSource, tempered
from torchpipe.data.mixing import MixSchedule, SourceShare, Stop, mix_schedule
from torchpipe.data.node_names import node_names
from torchpipe.data.pair_transform import SIDES
from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.datasets.joined import JoinedDataset, lengths_of, name_of
from torchpipe.datasets.packed import PackedDataset
from torchpipe.errors import ConfigError
from torchpipe.sources.identity import object_fingerprint
from torchpipe.store.rows import KIND_OF_PAIRS, kind_of

By = Literal["rows", "tokens", "trained_tokens"]
"""What weights are shares of. A row of a packed data set is a pack; its tokens are those without padding."""


class MixedRow(NamedTuple):
    """Where a row of a mix is from.

    Attributes:
        source: the name of its data set.
        row: the row's number there, or, where samples were stored or filtered before, the row of the source that its
            sample is of.
    """

    source: str
    row: int


class MixDataset(JoinedDataset):
    """Rows of several data sets, in shares by ``weights``; see :mod:`torchpipe.data.mixing` for their order.

    In a recipe's config, a list of dataset sections with ``weight`` gives one of these (see ``docs/mixing.md``).

    Args:
        datasets: by name, or a list of them; all of them packed, or none. One without a row is left out, with a
            warning.
        weights: by name, or a list: shares of ``by``, relative to each other. None: in proportion to what the data
            sets have.
        names: of a list of data sets. Each one's order is hashed from its name. Without, they are what the data sets
            call themselves, equal ones numbered.
        by: what weights are shares of. Tokens must be known without reading a row: of stored (``cache=True``) or packed
            data sets.
        stop: "first": each row stands at one place at most, and the epoch ends before a data set would begin again.
            "all": every row of every data set is there at least once, and those of the one that takes longest exactly
            once. "never": ``num_items`` rows, whatever it takes.
        epochs: how often a data set is gone through at most in an epoch of the mix, a number for all, by name, or a
            list. One that has reached it gives no more, and the others go on.
        temperature: instead of weights: what the data sets have to the power of 1 / temperature.
        num_items: the rows of an epoch where ``stop`` is "never".
        seed: of the order of each data set's rows.
        shuffle: False leaves each data set's rows in their order.
        epoch: which epoch of the mix this is, see :meth:`for_epoch`.

    Attributes:
        packed: whether the rows are packs.
        datasets: those that have rows.
        names: their names.
        by: what weights are shares of.
        name: what errors call it.
        schedule: which row of which data set stands at each place.
        num_filtered: rows that the data sets' filters left out.
        counts: what became of the samples, where every data set has counted already: of rows that were left out by all
            of them, of samples and tokens by what the mix holds.

    Raises:
        ConfigError: the data sets, weights or options can't be mixed so; the sentence says which.

    >>> mix = MixDataset({"a": ["a0", "a1", "a2", "a3"], "b": ["b0", "b1"]}, weights={"a": 2, "b": 1}, shuffle=False)
    >>> list(mix)
    ['a0', 'b0', 'a1', 'a2', 'b1', 'a3']
    >>> mix.row_of(4)
    MixedRow(source='b', row=1)
    >>> print(mix.describe())
    6 rows of 2 data sets by rows: a 66.7% (asked for 66.7%; 4 places for its 4 rows, 1.00 epochs), b 33.3% (asked \
for 33.3%; 2 places for its 2 rows, 1.00 epochs)
    """

    dataset_arguments = ("datasets",)
    counts: SampleCounts
    mixes: "Sequence[MixDataset] | None" = None
    """The mixes of single epochs that it is made of, see :meth:`over_epochs`."""

    def __init__(
        self,
        datasets: Mapping[str, RandomAccessDataSource[Any]] | Sequence[RandomAccessDataSource[Any]],
        *,
        weights: Mapping[str, float] | Sequence[float] | None = None,
        names: Sequence[str | None] | None = None,
        by: By = "rows",
        stop: Stop = "first",
        epochs: Mapping[str, float] | Sequence[float | None] | float | None = None,
        temperature: float | None = None,
        num_items: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        epoch: int = 0,
    ) -> None:
        if isinstance(datasets, Mapping):
            if names is not None:
                raise ConfigError("names are given twice: by the mapping of data sets, and by names. Leave names out.")
            names, datasets = list(datasets), list(datasets.values())
        super().__init__(datasets)
        if by not in (words := get_args(By)):
            raise ConfigError(f"by is {by!r}. It is one of {listed(words)}.{did_you_mean(str(by), words)}")
        if names is not None and len(names) != len(datasets):
            raise ConfigError(f"There are {len(names)} names for {len(datasets)} data sets.")
        given = node_names(names or [None] * len(datasets), [name_of(dataset) for dataset in datasets])
        if weights is not None and temperature is not None:
            raise ConfigError("weights and temperature both say how much of each data set there is. Set one of them.")
        weight_of = _by_name(weights, given, "weights")
        if weights is not None and (missing := [name for name in given if weight_of.get(name) is None]):
            raise ConfigError(f"There is no weight for {listed(missing)}. Give every data set one, or none.")
        most = dict.fromkeys(given, epochs) if _is_number(epochs) else _by_name(epochs, given, "epochs")
        kept = [place for place, dataset in enumerate(datasets) if len(dataset)]
        if empty := [name for place, name in enumerate(given) if place not in kept]:
            warnings.warn(f"Left out of the mix, for they have no rows: {listed(empty)}.", stacklevel=2)
        if not kept:
            raise ConfigError(f"There is nothing to mix: {listed(given)} have no rows.")
        self.datasets = [datasets[place] for place in kept]
        self.names = [given[place] for place in kept]
        self.by: By = by
        self._options: dict[str, Any] = {"stop": stop, "num_places": num_items, "seed": seed, "shuffle": shuffle}
        if weights is None:
            weight_of = self._by_size(1 if temperature is None else temperature)
        self._shared: list[dict[str, Any]] = [
            {"name": name, "weight": weight_of[name], "max_passes": most.get(name)} for name in self.names
        ]
        self._plan(epoch)

    @property
    def can_be_read_ahead(self) -> bool:
        """Whether all parts say so, see :func:`~torchpipe.data.protocols.can_be_read_ahead`."""
        return self._can_be_read_ahead()

    def for_epoch(self, epoch: int) -> "MixDataset":
        """The mix of another epoch: the same data sets in other orders.

        A data set of which an epoch takes a part goes on there where the epoch before has ended. Nothing is read.
        """
        other = self._copy()
        other._plan(epoch)
        return other

    def _copy(self) -> "MixDataset":
        """The same mix, without what was worked out."""
        other = MixDataset.__new__(MixDataset)
        vars(other).update(self.__getstate__())
        return other

    def over_epochs(self, number: int) -> "MixDataset":
        """The mixes of the first epochs, one after the other in one: its rows are those of all of them.

        ``mixes`` are those of each, whose rows :func:`~torchpipe.loading.steps_of` makes an epoch of each; what the mix
        says of its shares and counts is that of the first. Of one epoch it is this mix.
        """
        if number == 1:
            return self
        epochs = [self, *(self.for_epoch(epoch) for epoch in range(1, number))]
        other = self._copy()
        other.mixes = epochs
        other.schedule = replace(
            self.schedule,
            source=np.concatenate([one.schedule.source for one in epochs]),
            item=np.concatenate([one.schedule.item for one in epochs]),
        )
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "mixes"}

    def realised(self) -> list[SourceShare]:
        """Of each data set, its share of ``by`` by the weights, and the one that it has in the mix."""
        return list(self.schedule.shares)

    def describe(self) -> str:
        """One line: each data set's share, the one asked for, and how much of its rows there is."""
        what = "packs" if self.packed else "rows"
        unit = what if self.by == "rows" else self.by.replace("_", " ")
        told = (
            f"{share.name} {share.realised:.1%} (asked for {share.target:.1%}; {share.items:,} places for its "
            f"{share.num_items:,} {what}, {share.passes:.2f} epochs)"
            for share in self.realised()
        )
        sets = f"{len(self.names)} data set{'' if len(self.names) == 1 else 's'}"
        return f"{len(self):,} {what} of {sets} by {unit}: {', '.join(told)}"

    def __len__(self) -> int:
        return len(self.schedule)

    def locate(self, index: int) -> tuple[RandomAccessDataSource[Any], int]:
        """The data set that a row is of, and the row's number there."""
        index = self._row(index)
        return self.datasets[self.schedule.source[index]], int(self.schedule.item[index])

    def row_of(self, index: int) -> MixedRow:
        """The data set that a row is of, and which row of its source: of a pack, the pack's number."""
        index = self._row(index)
        number = int(self.schedule.source[index])
        dataset, row = self.datasets[number], int(self.schedule.item[index])
        if not self.packed and callable(row_of := getattr(dataset, "row_of", None)):
            found: Any = row_of(row)
            if isinstance(found, MixedRow):
                return MixedRow(f"{self.names[number]}/{found.source}", found.row)
            row = found[0]
        return MixedRow(self.names[number], row)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Several rows, in one call to each data set that can read several at once."""
        rows = [self._row(index) for index in indices]
        source, item = self.schedule.source[rows].tolist(), self.schedule.item[rows].tolist()
        if not any(hasattr(self.datasets[number], "__getitems__") for number in set(source)):
            return [self.datasets[number][row] for number, row in zip(source, item, strict=True)]
        found: list[Any] = [None] * len(rows)
        for number in set(source):
            places = [place for place, other in enumerate(source) if other == number]
            dataset, numbers = self.datasets[number], [item[place] for place in places]
            many = getattr(dataset, "__getitems__", None)
            items = [dataset[row] for row in numbers] if many is None else many(numbers)
            for place, one in zip(places, items, strict=True):
                found[place] = one
        return found

    def chosen(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """The entry of each row of the mix."""
        firsts = np.cumsum([0, *map(len, parts[:-1])], dtype=np.int64)
        places = firsts[self.schedule.source]
        places += self.schedule.item
        return np.concatenate(parts)[places]

    def fingerprint(self) -> str:
        """What tells these rows from others: the schedule, and the data sets' own fingerprints.

        Raises:
            NoFingerprint: a data set has none.
        """
        return fingerprint([self.schedule.fingerprint, *(object_fingerprint(dataset) for dataset in self.datasets)])

    def _sizes(self) -> str:
        return ", ".join(f"{share.items} of {share.name}" for share in self.schedule.shares)

    def _units(self, dataset: Any, name: str) -> np.ndarray | None:
        """What each row counts, whole numbers [rows]; None: one.

        Raises:
            ConfigError: a data set does not know its tokens without reading its rows.
        """
        if self.by == "rows":
            return None
        try:
            return lengths_of(dataset) if self.by == "tokens" else dataset.trained_counts
        except AttributeError:
            raise ConfigError(
                f"by={self.by!r} needs the tokens of each row of {name} before it is read, and a "
                f"{type(dataset).__name__} has none. Store its samples (cache=True) or pack them (packed=True), or mix "
                "by='rows'."
            ) from None

    def _by_size(self, temperature: float) -> dict[str, float]:
        """The weights of data sets that are mixed by what they have."""
        units = (self._units(dataset, name) for dataset, name in zip(self.datasets, self.names, strict=True))
        totals = [
            len(dataset) if unit is None else max(int(unit.sum(dtype=np.int64)), 1)
            for dataset, unit in zip(self.datasets, units, strict=True)
        ]
        return dict(zip(self.names, tempered(totals, temperature), strict=True))

    def _plan(self, epoch: int) -> None:
        """Makes the schedule of an epoch, and counts what it holds."""
        sources = [
            MixSource(num_items=len(dataset), sizes=self._units(dataset, shared["name"]), **shared)
            for dataset, shared in zip(self.datasets, self._shared, strict=True)
        ]
        self.schedule: MixSchedule = mix_schedule(sources, epoch=epoch, **self._options)
        parts = [getattr(dataset, "counts", None) for dataset in self.datasets]
        counted = [count for count in parts if isinstance(count, SampleCounts)]
        if len(counted) == len(parts):
            self.counts = self._counted(sum_of_counts(counted))

    def _counted(self, of_parts: SampleCounts) -> SampleCounts:
        """What the mix holds, where each data set has counted what it has."""
        trained = self.trained_counts
        lengths = self.side_lengths if self.kind == KIND_OF_PAIRS and not self.packed else self.lengths
        rows = self.chosen([samples_a_row(dataset) for dataset in self.datasets])
        return replace(
            of_parts,
            rows=int(rows.sum(dtype=np.int64)),
            tokens=int(self.lengths.sum(dtype=np.int64)),
            trained_tokens=int(trained.sum(dtype=np.int64)),
            untrained_rows=of_parts.untrained_rows if self.packed else int((trained == 0).sum()),
            longest=of_parts.longest if self.packed else int(lengths.max()),
            digest=fingerprint([self.schedule.fingerprint, of_parts.digest]),
        )


def over_epochs(dataset: Any, number: int) -> Any:
    """A mix over so many epochs (:meth:`MixDataset.over_epochs`); any other data set as it is."""
    return dataset.over_epochs(number) if isinstance(dataset, MixDataset) else dataset


def samples_a_row(dataset: Any) -> np.ndarray:
    """How many samples each row of a data set holds: of a pack, its documents."""
    if isinstance(dataset, PackedDataset):
        return np.diff(dataset.plan.pack_offsets)
    if isinstance(dataset, JoinedDataset):
        return dataset.chosen([samples_a_row(part) for part in dataset.datasets])
    return np.full(len(dataset), len(SIDES) if kind_of(dataset) == KIND_OF_PAIRS else 1, np.int64)


def _by_name(values: Any, names: Sequence[str], what: str) -> dict[str, Any]:
    """What was given for each name, in a mapping or in the order of the names.

    Raises:
        ConfigError: a name that there isn't, or another number of values.
    """
    if values is None:
        return {}
    if isinstance(values, Mapping):
        if unknown := [name for name in values if name not in names]:
            raise ConfigError(
                f"{what} has {unknown[0]!r}, and no data set of the mix is called so. They are {listed(names)}."
                f"{did_you_mean(str(unknown[0]), names)}"
            )
        return dict(values)
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ConfigError(f"{what} is {values!r}. Give a mapping of names to numbers, or a list of numbers.")
    if len(values) != len(names):
        raise ConfigError(f"{what} has {len(values)} numbers for {len(names)} data sets.")
    return dict(zip(names, values, strict=True))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)
