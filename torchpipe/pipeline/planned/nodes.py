"""The nodes of a planned graph: each makes rows of its children's rows, on whole numbers alone.

A node is a pure function of lengths, its settings, the seed and the epoch. No token is read.
"""

import hashlib
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from torchpipe._seeds import derive, hashed_permutation
from torchpipe._suggest import listed
from torchpipe.data.mix_phases import phased_schedule
from torchpipe.data.mix_source import MixSource
from torchpipe.data.mixing import MixSchedule, SourceShare, Stop, items_of_pass, mix_schedule
from torchpipe.data.packing import PackPlan
from torchpipe.data.packing.nesting import joined_rows, rows_of_samples
from torchpipe.pipeline.account import account, source_account
from torchpipe.pipeline.graph_text import leaf_text
from torchpipe.store import TokenStore


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """What the nodes of a planned graph share.

    Attributes:
        seed, shuffle: of the run.
        capacity: tokens of a packed row.
        max_context_length: of a document.
        max_num_documents: the most of a packed row; None: no limit.
        samples: of all leaves, to count their trained tokens.
    """

    seed: int
    shuffle: bool
    capacity: int
    max_context_length: int
    max_num_documents: int | None
    samples: Any

    def order(self, num_rows: int, *path: str | int) -> np.ndarray:
        """The order that is hashed from a path, or the one in which rows come."""
        if not self.shuffle:
            return np.arange(num_rows)
        return hashed_permutation(num_rows, derive(self.seed, *path))

    def trained(self, rows: PackPlan) -> np.ndarray:
        """The labels of each row that are trained: int64 [rows]."""
        counts = self.samples.trained_in(rows.sample, rows.start, rows.stop)
        return np.add.reduceat(counts, rows.pack_offsets[:-1]) if len(rows) else counts


@dataclass(frozen=True, kw_only=True, eq=False)
class Node(ABC):
    """A node of a planned graph.

    Attributes:
        name: whence its seeds are hashed.
    """

    name: str
    kind: ClassVar[str]
    """What it does, in a word."""

    @abstractmethod
    def identity(self) -> str:
        """What decides its rows, beside its children and what all nodes share: a short text."""

    @abstractmethod
    def items(self, run: Run) -> PackPlan:
        """Its rows in an order that is the same in every epoch, for a parent to choose from."""

    @abstractmethod
    def rows(self, run: Run, epoch: int) -> PackPlan:
        """Its rows in an epoch's order."""

    @property
    def children(self) -> Sequence["Node"]:
        """The nodes below."""
        return ()

    def settings(self) -> dict[str, Any]:
        """How it makes its rows: settings of its config, by name."""
        return {}

    def account(self, run: Run, epoch: int) -> dict[str, Any]:
        """What it did not give on of its children's rows, or in which shares it took them."""
        return {}


@dataclass(frozen=True, kw_only=True, eq=False)
class Leaf(Node):
    """The rows of a source.

    Attributes:
        store: of its samples.
        first_sample: the number of its first one among those of all leaves.
        made_of: fingerprints of what the samples are made of, see :func:`torchpipe.pipeline.state.leaf_text`.
    """

    kind: ClassVar[str] = "source"

    store: TokenStore
    first_sample: int
    made_of: Mapping[str, str]

    def identity(self) -> str:
        """What decides its rows, beside its children."""
        return leaf_text({**self.made_of, "samples": self.store.digest})

    @property
    def longest(self) -> int:
        """Tokens of its longest row."""
        begins = np.flatnonzero(np.diff(self.store.rows, prepend=-1))  # a row may be several samples
        if not len(begins):
            return 0
        return int(np.add.reduceat(self.store.lengths.astype(np.int64) - 1, begins).max())

    def items(self, run: Run) -> PackPlan:
        """Its rows in an order of no epoch."""
        # The last token of a sample is nothing but the label of the one before.
        rows = rows_of_samples(self.store.lengths.astype(np.int64) - 1, np.asarray(self.store.rows))
        return joined_rows([rows], [self.first_sample])

    def rows(self, run: Run, epoch: int) -> PackPlan:
        """Its rows in an epoch's order."""
        items = self.items(run)
        return items.take(run.order(len(items), "shuffle", self.name, epoch)) if run.shuffle else items

    def account(self, run: Run, epoch: int) -> dict[str, Any]:
        """What became of the rows that it was given."""
        return source_account(self.store.ledger)


@dataclass(frozen=True, kw_only=True, eq=False)
class NoRows(Node):
    """A source without rows."""

    kind: ClassVar[str] = "source"

    def identity(self) -> str:
        """What decides its rows."""
        return "no rows"

    def items(self, run: Run) -> PackPlan:
        """None."""
        return rows_of_samples(np.zeros(0, np.int64))

    def rows(self, run: Run, epoch: int) -> PackPlan:
        """None."""
        return self.items(run)

    def account(self, run: Run, epoch: int) -> dict[str, Any]:
        """Nothing was read."""
        return account(rows_in=0, rows_out=0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Concat(Node):
    """The rows of several nodes, shuffled together."""

    kind: ClassVar[str] = "concat"

    parts: Sequence[Node]

    def identity(self) -> str:
        """What decides its rows, beside its children."""
        return "joins " + _short([part.name for part in self.parts])

    @property
    def children(self) -> Sequence[Node]:
        """The nodes below."""
        return self.parts

    def items(self, run: Run) -> PackPlan:
        """Its rows in an order of no epoch."""
        return joined_rows([part.items(run) for part in self.parts], [0] * len(self.parts))

    def rows(self, run: Run, epoch: int) -> PackPlan:
        """Its rows in an epoch's order."""
        items = self.items(run)
        return items.take(run.order(len(items), "shuffle", self.name, epoch)) if run.shuffle else items


@dataclass(frozen=True, kw_only=True, eq=False)
class Mix(Node):
    """The rows of several nodes in shares.

    Attributes:
        parts, max_epochs: of each; weights: of each, by the first row of the mix that they hold for.
        by: what weights are shares of: rows, tokens or trained_tokens.
        stop: when an epoch ends.
    """

    kind: ClassVar[str] = "mix"

    parts: Sequence[Node]
    weights: Sequence[Mapping[int, float]]
    max_epochs: Sequence[float | None]
    by: str
    stop: Stop
    _shares: dict[int, Sequence[SourceShare]] = field(default_factory=dict, init=False, repr=False)
    _until: list[Counter[str]] = field(default_factory=lambda: [Counter()], init=False, repr=False)

    def identity(self) -> str:
        """What decides its rows, beside its children."""
        names = [part.name for part in self.parts]
        return "mixes " + _short([names, self.weights, self.max_epochs, self.by, self.stop])

    @property
    def children(self) -> Sequence[Node]:
        """The nodes below."""
        return self.parts

    def items(self, run: Run) -> PackPlan:
        """Its rows in an order of no epoch."""
        return self.rows(run, 0)

    def rows(self, run: Run, epoch: int) -> PackPlan:
        """Its rows in an epoch's order."""
        return self._mixed(run, epoch)

    def settings(self) -> dict[str, Any]:
        """What its shares are of, and when an epoch ends."""
        return {"by": self.by, "stop": self.stop}

    def account(self, run: Run, epoch: int) -> dict[str, Any]:
        """What became of the rows that it was given."""
        return {
            share.name: {"target": share.target, "served": share.realised, "rows": share.items, "epochs": share.passes}
            for share in self._shares_of(run, epoch)
        }

    def _shares_of(self, run: Run, epoch: int) -> Sequence[SourceShare]:
        if epoch not in self._shares:
            self._mixed(run, epoch)
        return self._shares[epoch]

    def _mixed(self, run: Run, epoch: int) -> PackPlan:
        """The rows of an epoch, of which the shares are kept."""
        given = self._given_before(run, epoch)
        items = [part.items(run) for part in self.parts]
        sources = [
            source
            for part, rows, weights, most in zip(self.parts, items, self.weights, self.max_epochs, strict=True)
            if (source := self._source(run, part.name, rows, weights[0], most, given[part.name])) is not None
        ]
        if not sources:
            self._shares[epoch] = ()
            return rows_of_samples(np.zeros(0, np.int64))
        schedule = self._schedule(run, sources, epoch, first_place=given.total())
        self._shares[epoch] = schedule.shares
        names = {source.name for source in sources}
        mixed = [rows for part, rows in zip(self.parts, items, strict=True) if part.name in names]
        firsts = np.cumsum([0, *(len(rows) for rows in mixed)])
        joined = joined_rows(mixed, [0] * len(mixed))
        return joined.take(firsts[schedule.source] + schedule.item)

    def _source(
        self, run: Run, name: str, rows: PackPlan, weight: float, most: float | None, given: int
    ) -> MixSource | None:
        """A node as a source; None: it has nothing to give, or no more.

        Args:
            given: rows that earlier epochs had of it, where there is a limit. Their passes go on behind these.
        """
        if not len(rows):
            return None
        source = MixSource(name=name, num_items=len(rows), weight=weight, sizes=self._sizes(run, rows))
        if most is None:
            return source
        stop = int(Fraction(repr(float(most))) * len(rows))
        units = 0
        for number in range(given // len(rows), -(-stop // len(rows))):
            order = items_of_pass(source, number, seed=run.seed, shuffle=run.shuffle)
            first = number * len(rows)
            units += source.units_of(order[max(given - first, 0) : max(stop - first, 0)])
        if not units:
            return None
        # The schedule of changing weights counts rows, the other one units.
        left = Fraction(units, source.num_units) if self._is_steady else Fraction(stop - given, len(rows))
        return replace(source, max_passes=left, items_before=given)

    def _given_before(self, run: Run, epoch: int) -> Counter[str]:
        """How many rows of each node earlier epochs have had; as far back as that matters.

        It does until the weights change no more, and no node with a limit has anything left.
        """
        limited = [
            (part, weights[0], most)
            for part, weights, most in zip(self.parts, self.weights, self.max_epochs, strict=True)
            if most is not None
        ]
        if self._is_steady and not limited:
            return Counter()
        last_turn = max(max(weights) for weights in self.weights)
        while len(self._until) <= epoch:
            given = self._until[-1]
            if given.total() >= last_turn and all(
                self._source(run, part.name, part.items(run), weight, most, given[part.name]) is None
                for part, weight, most in limited
            ):
                return given
            shares = self._shares_of(run, len(self._until) - 1)
            self._until.append(given + Counter({share.name: share.items for share in shares}))
        return self._until[epoch]

    @property
    def _is_steady(self) -> bool:
        """Whether all weights stay as they are."""
        return all(len(weights) == 1 for weights in self.weights)

    def _schedule(self, run: Run, sources: Sequence[MixSource], epoch: int, *, first_place: int) -> MixSchedule:
        options: dict[str, Any] = {"stop": self.stop, "seed": run.seed, "shuffle": run.shuffle, "epoch": epoch}
        if self._is_steady:
            return mix_schedule(sources, **options)
        weights = dict(zip([part.name for part in self.parts], self.weights, strict=True))
        of_each = [weights[source.name] for source in sources]
        return phased_schedule(sources, of_each, first_place=first_place, **options)

    def warn_of_empty(self, run: Run) -> None:
        """Warns of nodes that have no rows to give."""
        if empty := [part.name for part in self.parts if not len(part.items(run))]:
            warnings.warn(f"Left out of the mix {self.name}, for they have no rows: {listed(empty)}.", stacklevel=2)

    def _sizes(self, run: Run, rows: PackPlan) -> np.ndarray | None:
        if self.by == "rows":
            return None
        return rows.num_tokens if self.by == "tokens" else run.trained(rows)


def _short(value: object) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=4).hexdigest()
