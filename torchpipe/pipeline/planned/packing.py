"""The node of a planned graph that packs rows into longer ones."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from torchpipe._counted import counted
from torchpipe.data.overflow import Overflow
from torchpipe.data.packing import PackPlan, plan_packs
from torchpipe.data.packing.nesting import FittedRows, each_document, fitted_rows, rows_in_packs
from torchpipe.errors import DataError
from torchpipe.pipeline.account import account
from torchpipe.pipeline.planned.nodes import Leaf, Node, Run
from torchpipe.pipeline.too_long import warn_of_too_long


@dataclass(frozen=True, kw_only=True, eq=False)
class Packed(Node):
    """Rows packed into longer ones.

    Attributes:
        part: whose rows are packed.
        strategy: of :func:`~torchpipe.data.packing.plan_packs`.
        overflow: what becomes of documents longer than ``max_context_length``.
        drops_last: whether a last row that is not full is left out.
    """

    kind: ClassVar[str] = "packing"

    part: Node
    strategy: str
    overflow: Overflow
    drops_last: bool = False
    _accounts: dict[int, dict[str, Any]] = field(default_factory=dict, init=False, repr=False)

    def identity(self) -> str:
        """What decides its rows, beside its children."""
        return f"packs {self.part.name} by {self.strategy}, {self.overflow}" + ", whole rows" * self.drops_last

    @property
    def children(self) -> Sequence[Node]:
        """The nodes below."""
        return (self.part,)

    def items(self, run: Run) -> PackPlan:
        """Its rows in an order of no epoch."""
        return self._of(run, 0)

    def rows(self, run: Run, epoch: int) -> PackPlan:
        """Its rows in an epoch's order."""
        packs = self._of(run, epoch)
        # next_fit keeps the order of what it packs, which the nodes below have shuffled.
        is_shuffled = run.shuffle and self.strategy != "next_fit"
        return packs.take(run.order(len(packs), "packs", self.name, epoch)) if is_shuffled else packs

    def settings(self) -> dict[str, Any]:
        """How rows are filled, and what becomes of what is too long."""
        return {"strategy": self.strategy, "overflow": self.overflow}

    def account(self, run: Run, epoch: int) -> dict[str, Any]:
        """What became of the rows that it was given."""
        if epoch not in self._accounts:
            self._of(run, epoch)
        return dict(self._accounts[epoch])

    def _of(self, run: Run, epoch: int) -> PackPlan:
        """The packs of an epoch, of which it is kept what was lost."""
        packs, self._accounts[epoch] = self._packed(run, self.part.rows(run, epoch))
        return packs

    def warn_of_too_long(self, run: Run) -> None:
        """Warns of sources of which much is dropped here, since it is too long. Only lengths are looked at."""
        if self.overflow != "drop":
            return
        for leaf in _sources_of(self.part):
            if leaf.longest <= min(run.capacity, run.max_context_length):
                continue
            rows = leaf.items(run)
            fitted = fitted_rows(rows, longest=run.max_context_length, capacity=run.capacity, overflow="drop")
            warn_of_too_long(
                f"{self.name} of {leaf.name}",
                rows=(len(fitted.dropped), len(rows)),
                tokens=(fitted.num_dropped_tokens, int(rows.num_tokens.sum())),
                stacklevel=3,
            )

    def _packed(self, run: Run, rows: PackPlan) -> tuple[PackPlan, dict[str, Any]]:
        if self.strategy == "concat_then_split" and run.max_num_documents is not None:
            fitted = FittedRows(rows=rows)  # documents are cut where they are placed
        else:
            fitted = fitted_rows(
                rows,
                longest=run.max_context_length,
                capacity=run.capacity,
                overflow=self.overflow,
                max_documents=run.max_num_documents,
            )
        if self.overflow == "error":
            self._refuse(run, rows, fitted)
        given, last_row = fitted.rows, 0
        if not len(given):
            packed = given
        elif self.strategy == "concat_then_split":
            packed, last_row = self._in_order(run, each_document(given))
        else:
            most = run.max_num_documents
            cap: dict[str, Any] = {} if most is None else {"cost": np.diff(given.pack_offsets), "max_cost": most}
            packs = plan_packs(given.num_tokens, run.capacity, strategy=self.strategy, **cap)
            packed = _in_their_order(run, packs, rows_in_packs(packs, given))
        return packed, self._account(rows, fitted, packed, last_row=last_row)

    def _refuse(self, run: Run, rows: PackPlan, fitted: FittedRows) -> None:
        """Raises where a row does not fit."""
        if len(fitted.dropped):
            raise DataError(
                f"{self.name}: {counted(len(fitted.dropped), 'row')} too long for rows of {run.capacity} tokens and "
                f"documents of {run.max_context_length}; the longest has {int(rows.num_tokens.max())}. Raise the "
                "numbers, or set overflow to 'drop', 'truncate' or 'split'."
            )
        if len(fitted.over_cap):
            rows_have = f"{counted(len(fitted.over_cap), 'row')} {'has' if len(fitted.over_cap) == 1 else 'have'}"
            raise DataError(
                f"{self.name}: {rows_have} more documents than max_num_documents="
                f"{run.max_num_documents}; one has {int(np.diff(rows.pack_offsets)[fitted.over_cap].max())}. Raise it, "
                "or set overflow to 'drop', 'truncate' or 'split'."
            )

    def _in_order(self, run: Run, documents: PackPlan) -> tuple[PackPlan, int]:
        """Documents one after the other, cut where a row is full; and the tokens of a last row that was left out."""
        capped = {"max_documents": run.max_num_documents, "max_span": run.max_context_length}
        packs = plan_packs(
            documents.num_tokens,
            run.capacity,
            strategy="concat_then_split",
            **(capped if run.max_num_documents is not None else {}),  # pyright: ignore[reportArgumentType]
        )
        whole, last_row = rows_in_packs(packs, documents), 0
        is_short = whole.num_tokens[-1] < run.capacity
        at_the_cap = run.max_num_documents is not None and int(np.diff(whole.pack_offsets)[-1]) >= run.max_num_documents
        if self.drops_last and is_short and not at_the_cap:
            last_row = int(whole.num_tokens[-1])
            kept = np.arange(len(whole) - 1)
            packs, whole = packs.take(kept), whole.take(kept)
        return _in_their_order(run, packs, whole), last_row

    def _account(self, rows: PackPlan, fitted: FittedRows, packed: PackPlan, *, last_row: int) -> dict[str, Any]:
        tokens_out = int(packed.num_tokens.sum())
        return account(
            rows_in=len(rows),
            rows_out=len(packed),
            rows_left_out={"too_long": len(fitted.dropped), "over_cap": len(fitted.over_cap)},
            # Concatenation cuts any row where a pack is full, which is no news of it.
            rows_split=0 if self.strategy == "concat_then_split" else fitted.num_split,
            tokens_in=int(rows.num_tokens.sum()),
            tokens_out=tokens_out,
            tokens_left_out={
                "too_long": fitted.num_dropped_tokens,
                "over_cap": fitted.num_over_cap_tokens,
                "truncated": fitted.num_truncated,
                "last_row": last_row,
            },
            padding=int(packed.pack_lens.sum()) - tokens_out,
        )


def _in_their_order(run: Run, packs: PackPlan, rows: PackPlan) -> PackPlan:
    """Packed rows, in the order of what they hold where nothing is shuffled.

    Args:
        run: which says whether it is.
        packs: which rows of those that were given each holds.
        rows: the same as documents.
    """
    if run.shuffle or not len(rows):
        return rows
    firsts = np.minimum.reduceat(packs.sample, packs.pack_offsets[:-1])
    return rows.take(np.argsort(firsts, kind="stable"))


def _sources_of(node: Node) -> list[Leaf]:
    """The sources whose rows a node takes as they are, each once: not those that are packed below it."""
    found: dict[str, Leaf] = {}
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Leaf):
            found[one.name] = one
        elif not isinstance(one, Packed):
            waiting += one.children
    return list(found.values())
