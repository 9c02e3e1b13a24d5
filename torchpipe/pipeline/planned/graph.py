"""A graph of sources, mixes and packing as a plan: which tokens of which samples each row of an epoch holds.

Every leaf is a store, so that lengths are known before anything is chosen. Each node then makes rows of its children's
rows, on whole numbers alone (:mod:`torchpipe.data.packing.nesting`): a pure function of the stores, the config, the
seed and the epoch, the same on every rank.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from torchpipe.data.packing import LLAMA3_8B_COST, CostModel, PackPlan
from torchpipe.pipeline.planned.leaf import LeafRecipe
from torchpipe.pipeline.planned.nodes import Leaf, Node, Run
from torchpipe.store import TokenStore
from torchpipe.store.plans import FEWEST_SAMPLES, drop_plan, kept_plan, plan_folder


@dataclass(frozen=True, kw_only=True, eq=False)
class PlannedGraph:
    """A graph whose rows are known by number, epoch by epoch.

    Attributes:
        root: the uppermost node.
        run: what all share.
        recipes: of each source, by the name of its node. A copy for another process has none.
    """

    root: Node
    run: Run
    recipes: Mapping[str, LeafRecipe] = field(default_factory=dict)
    _kept: dict[int, PackPlan] = field(default_factory=dict, init=False, repr=False)
    _lock: Any = field(default_factory=Lock, init=False, repr=False)  # the thread that reads ahead asks too

    def rows(self, epoch: int) -> PackPlan:
        """The rows of an epoch."""
        with self._lock:
            kept = self._kept.get(epoch)
            if kept is None:
                kept = self._planned(epoch)
                while len(self._kept) >= _EPOCHS_KEPT:
                    self._kept.pop(next(iter(self._kept)))
                self._kept[epoch] = kept
            return kept

    def _planned(self, epoch: int) -> PackPlan:
        """The rows of an epoch, of large sources out of a file that all processes of a machine share."""
        if sum(store.num_samples for store in self.stores) < FEWEST_SAMPLES:
            return self.root.rows(self.run, epoch)
        plan = kept_plan(self._folder(epoch), lambda: self.root.rows(self.run, epoch))
        drop_plan(self._folder(epoch - _EPOCHS_KEPT))
        return plan

    def _folder(self, epoch: int) -> Path:
        digests = [store.digest for store in self.stores]
        return plan_folder(self.stores[0], repr(["graph", digests, sorted(self._identity.items()), epoch]))

    def num_rows(self, epoch: int) -> int:
        """How many rows an epoch has."""
        return len(self.rows(epoch))

    def costs(
        self, epoch: int, rows: np.ndarray | None = None, *, rows_a_batch: int, cost: CostModel = LLAMA3_8B_COST
    ) -> np.ndarray:
        """What rows of an epoch cost to train on, with their padding: int64 [rows].

        Args:
            rows: their numbers in the epoch, int64; None: all of them.
            rows_a_batch: a row that is a whole batch is filled up to ``num_tokens_per_batch``.
            cost: of a document. Padding is documents of up to ``max_context_length`` tokens.
        """
        plan = self.rows(epoch)
        plan = plan if rows is None else plan.take(rows)
        longest = np.array([self.run.max_context_length])
        length = np.maximum(plan.pack_lens, self.run.capacity) if rows_a_batch == 1 else plan.pack_lens
        whole, rest = np.divmod(length - plan.num_tokens, longest)
        return plan.costs(cost, padding=False) + whole * cost(longest) + cost(rest)

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

    def leaf_of(self, sample: int) -> Leaf:
        """The source that a sample is of, by its number among those of all sources."""
        before = (leaf for leaf in self._leaves if leaf.first_sample <= sample)
        return max(before, key=lambda leaf: leaf.first_sample)

    def describe_rows(self, places: Sequence[tuple[int, int]]) -> str:
        """Rows in words: of which sources, and which rows of these.

        Args:
            places: epoch and row of each.
        """
        found: dict[str, set[int]] = {}
        for epoch, row in places:
            for sample, _, _ in self.rows(epoch).spans(row):
                leaf = self.leaf_of(sample)
                found.setdefault(leaf.name, set()).add(int(leaf.store.rows[sample - leaf.first_sample]))
        told = [f"rows {', '.join(map(str, sorted(rows)))} of {name}" for name, rows in sorted(found.items())]
        return "; ".join(told) or "padding alone"

    @cached_property
    def _identity(self) -> dict[str, str]:
        return self.identity()

    def identity(self) -> dict[str, str]:
        """What decides the rows: a text for each node, and for each number that all share."""
        shared = ("seed", "shuffle", "capacity", "max_context_length", "max_num_documents")
        return {
            **{name: node.identity() for name, node in self.nodes.items()},
            **{name: str(getattr(self.run, name)) for name in shared},
        }

    def account(self, epoch: int = 0) -> dict[str, Mapping[str, Any]]:
        """What became of the rows at each node in an epoch, by the node's name."""
        with self._lock:
            return {name: node.account(self.run, epoch) for name, node in self.nodes.items()}

    def __getstate__(self) -> dict[str, Any]:
        return {"root": self.root, "run": self.run}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in {**state, "recipes": {}, "_kept": {}, "_lock": Lock()}.items():
            object.__setattr__(self, name, value)


_EPOCHS_KEPT = 2
"""Around the end of an epoch batches of both are made."""
