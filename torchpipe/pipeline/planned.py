"""A graph of sources, mixes and packing as a plan: which tokens of which samples each row of an epoch holds.

Every leaf is a store, so that lengths are known before anything is chosen. Each node then makes rows of its children's
rows, on whole numbers alone (:mod:`torchpipe.data.packing.nesting`): a pure function of the stores, the config, the
seed and the epoch, the same on every rank.
"""

import hashlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from torchpipe._seeds import derive, hashed_permutation
from torchpipe._suggest import listed
from torchpipe.data.mix_source import MixSource
from torchpipe.data.mixing import SourceShare, Stop, mix_schedule
from torchpipe.data.overflow import Overflow
from torchpipe.data.packing import PackPlan, plan_packs
from torchpipe.data.packing.nesting import each_document, fitted_rows, joined_rows, rows_in_packs, rows_of_samples
from torchpipe.errors import DataError
from torchpipe.pipeline.state import leaf_text
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

    store: TokenStore
    first_sample: int
    made_of: Mapping[str, str]

    def identity(self) -> str:
        """What decides its rows, beside its children."""
        return leaf_text({**self.made_of, "samples": self.store.digest})

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
        return dict(self.store.ledger)


@dataclass(frozen=True, kw_only=True, eq=False)
class NoRows(Node):
    """A source without rows."""

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
        return {"read": 0}


@dataclass(frozen=True, kw_only=True, eq=False)
class Concat(Node):
    """The rows of several nodes, shuffled together."""

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
        parts, weights, max_epochs: of each.
        by: what weights are shares of: rows, tokens or trained_tokens.
        stop: when an epoch ends.
    """

    parts: Sequence[Node]
    weights: Sequence[float]
    max_epochs: Sequence[float | None]
    by: str
    stop: Stop

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
        return self._mixed(run, epoch)[0]

    def account(self, run: Run, epoch: int) -> dict[str, Any]:
        """What became of the rows that it was given."""
        shares = self._mixed(run, epoch)[1]
        return {
            share.name: {"target": share.target, "served": share.realised, "rows": share.items, "epochs": share.passes}
            for share in shares
        }

    def _mixed(self, run: Run, epoch: int) -> tuple[PackPlan, Sequence[SourceShare]]:
        items = [part.items(run) for part in self.parts]
        sources = [
            MixSource(
                name=part.name,
                num_items=len(rows),
                weight=weight,
                sizes=self._sizes(run, rows),
                max_passes=most,
            )
            for part, rows, weight, most in zip(self.parts, items, self.weights, self.max_epochs, strict=True)
            if len(rows)
        ]
        if not sources:
            return rows_of_samples(np.zeros(0, np.int64)), ()
        schedule = mix_schedule(sources, stop=self.stop, seed=run.seed, shuffle=run.shuffle, epoch=epoch)
        given = [rows for rows in items if len(rows)]
        firsts = np.cumsum([0, *(len(rows) for rows in given)])
        joined = joined_rows(given, [0] * len(given))
        return joined.take(firsts[schedule.source] + schedule.item), schedule.shares

    def warn_of_empty(self, run: Run) -> None:
        """Warns of nodes that have no rows to give."""
        if empty := [part.name for part in self.parts if not len(part.items(run))]:
            warnings.warn(f"Left out of the mix {self.name}, for they have no rows: {listed(empty)}.", stacklevel=2)

    def _sizes(self, run: Run, rows: PackPlan) -> np.ndarray | None:
        if self.by == "rows":
            return None
        return rows.num_tokens if self.by == "tokens" else run.trained(rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class Packed(Node):
    """Rows packed into longer ones.

    Attributes:
        part: whose rows are packed.
        strategy: of :func:`~torchpipe.data.packing.plan_packs`.
        overflow: what becomes of documents longer than ``max_context_length``.
        drops_last: whether a last row that is not full is left out.
    """

    part: Node
    strategy: str
    overflow: Overflow
    drops_last: bool = False

    def identity(self) -> str:
        """What decides its rows, beside its children."""
        return f"packs {self.part.name} by {self.strategy}, {self.overflow}" + ", whole rows" * self.drops_last

    @property
    def children(self) -> Sequence[Node]:
        """The nodes below."""
        return (self.part,)

    def items(self, run: Run) -> PackPlan:
        """Its rows in an order of no epoch."""
        return self._packed(run, self.part.rows(run, 0))[0]

    def rows(self, run: Run, epoch: int) -> PackPlan:
        """Its rows in an epoch's order."""
        packs = self._packed(run, self.part.rows(run, epoch))[0]
        return packs.take(run.order(len(packs), "packs", self.name, epoch)) if run.shuffle else packs

    def account(self, run: Run, epoch: int) -> dict[str, Any]:
        """What became of the rows that it was given."""
        return self._packed(run, self.part.rows(run, epoch))[1]

    def _packed(self, run: Run, rows: PackPlan) -> tuple[PackPlan, dict[str, Any]]:
        fitted = fitted_rows(rows, longest=run.max_context_length, capacity=run.capacity, overflow=self.overflow)
        given = fitted.rows
        if self.overflow == "error" and len(fitted.dropped):
            raise DataError(
                f"{self.name}: {len(fitted.dropped)} rows are too long for rows of {run.capacity} tokens and documents "
                f"of {run.max_context_length}; the longest has {int(rows.num_tokens.max())}. Raise the numbers, or set "
                "overflow to 'drop', 'truncate' or 'split'."
            )
        lost: dict[str, Any] = {
            "too_long": len(fitted.dropped),
            "too_long_tokens": fitted.num_dropped_tokens,
            "truncated_tokens": fitted.num_truncated,
            "split": fitted.num_split,
        }
        if not len(given):
            return given, lost
        most = run.max_num_documents
        documents = None if most is None else np.diff(given.pack_offsets)
        if most is not None and documents is not None and documents.max() > most:
            raise DataError(
                f"{self.name}: a row has {documents.max()} documents, and max_num_documents is {most}. Raise it, or "
                "leave such rows out by a post filter."
            )
        if self.strategy == "concat_then_split":
            given = each_document(given)
            packs = plan_packs(given.num_tokens, run.capacity, strategy=self.strategy, max_documents=most)
        else:
            packs = plan_packs(given.num_tokens, run.capacity, strategy=self.strategy, cost=documents, max_cost=most)
        whole = rows_in_packs(packs, given)
        if not run.shuffle:
            firsts = np.minimum.reduceat(packs.sample, packs.pack_offsets[:-1])
            whole = whole.take(np.argsort(firsts, kind="stable"))
        if self.drops_last and whole.num_tokens[-1] < run.capacity:
            lost["last_row_tokens"] = int(whole.num_tokens[-1])
            whole = whole.take(np.arange(len(whole) - 1))
        return whole, {name: count for name, count in {**lost, "rows": len(whole), "fill": whole.fill}.items() if count}


@dataclass(frozen=True, kw_only=True, eq=False)
class PlannedGraph:
    """A graph whose rows are known by number, epoch by epoch.

    Attributes:
        root: the uppermost node.
        run: what all share.
    """

    root: Node
    run: Run
    _kept: dict[int, PackPlan] = field(default_factory=dict, init=False, repr=False)

    def rows(self, epoch: int) -> PackPlan:
        """The rows of an epoch."""
        kept = self._kept.get(epoch)
        if kept is None:
            kept = self.root.rows(self.run, epoch)
            while len(self._kept) >= _EPOCHS_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[epoch] = kept
        return kept

    def num_rows(self, epoch: int) -> int:
        """How many rows an epoch has."""
        return len(self.rows(epoch))

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """All nodes by name, parents first."""
        found: dict[str, Node] = {}
        waiting = [self.root]
        while waiting:
            node = waiting.pop(0)
            found[node.name] = node
            waiting += node.children
        return found

    @property
    def stores(self) -> list[TokenStore]:
        """The stores of all sources, each once."""
        return list(dict.fromkeys(leaf.store for leaf in self._leaves))

    @property
    def _leaves(self) -> list[Leaf]:
        return [node for node in self.nodes.values() if isinstance(node, Leaf)]

    def describe_rows(self, places: Sequence[tuple[int, int]]) -> str:
        """Rows in words: of which sources, and which rows of these.

        Args:
            places: epoch and row of each.
        """
        found: dict[str, set[int]] = {}
        for epoch, row in places:
            for sample, _, _ in self.rows(epoch).spans(row):
                leaf = max(
                    (leaf for leaf in self._leaves if leaf.first_sample <= sample), key=lambda leaf: leaf.first_sample
                )
                found.setdefault(leaf.name, set()).add(int(leaf.store.rows[sample - leaf.first_sample]))
        told = [f"rows {', '.join(map(str, sorted(rows)))} of {name}" for name, rows in sorted(found.items())]
        return "; ".join(told) or "padding alone"

    def identity(self) -> dict[str, str]:
        """What decides the rows: a text for each node, and for each number that all share."""
        shared = ("seed", "shuffle", "capacity", "max_context_length", "max_num_documents")
        return {
            **{name: node.identity() for name, node in self.nodes.items()},
            **{name: str(getattr(self.run, name)) for name in shared},
        }

    def account(self, epoch: int = 0) -> dict[str, Mapping[str, Any]]:
        """What became of the rows at each node in an epoch, by the node's name."""
        return {name: node.account(self.run, epoch) for name, node in self.nodes.items()}

    def __getstate__(self) -> dict[str, Any]:
        return {"root": self.root, "run": self.run}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in {**state, "_kept": {}}.items():
            object.__setattr__(self, name, value)


def _short(value: object) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=4).hexdigest()


_EPOCHS_KEPT = 2
"""Around the end of an epoch batches of both are made."""
