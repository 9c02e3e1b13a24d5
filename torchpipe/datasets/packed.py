"""Samples packed into rows of one length."""

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from torchpipe.data.ledger import SampleCounts
from torchpipe.data.ledger_summary import LedgerSummary
from torchpipe.data.packing import LLAMA3_8B_COST, CostModel, PackPlan, Span, Strategy, assemble, padding_pack
from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.datasets.first_packs import asked_for
from torchpipe.datasets.row_number import row_number, row_of_sample
from torchpipe.datasets.samples_to_pack import Samples, samples_to_pack
from torchpipe.errors import ConfigError
from torchpipe.store import TokenStore
from torchpipe.store.rows import StoreRecipe, kind_of


class PackedDataset(Dataset[dict[str, torch.Tensor]]):
    """Rows of ``max_seq_len`` tokens, filled with samples. Called as torchtune calls it, its packs are torchtune's.

    Tokens lie in a store, which all processes of a machine share (see :mod:`torchpipe.store`): it is opened where it is
    there, and built where it is not. A plan says which samples share a row, and rows are assembled when asked for. A
    list of samples, or a data set of your own that has no ``fingerprint()``, is read once instead and held as 8 bytes a
    token.

    Args:
        ds: an :class:`~torchpipe.datasets.SFTDataset` or a store's recipe; a :class:`~torchpipe.store.TokenStore`; or
            any object with ``__len__`` and ``__getitem__`` that gives ``tokens`` and ``labels`` of equal length, and as
            many ``loss_weights``, where it has them. One with ``fitted`` may give several samples a row, or none.
        max_seq_len: tokens of a row, s.
        padding_idx: the token that fills a row.
        max_packs: only the first so many rows; samples beyond are left out and counted.
        split_across_pack: True cuts rows exactly at ``max_seq_len``, so that a sample may go on in the next row; False
            starts a new row where a sample does not fit.
        strategy: another way to fill rows, see :data:`~torchpipe.data.packing.Strategy`, or the dotted path of your own
            planner; None: "next_fit", or "concat_then_split" for ``split_across_pack``.
        max_documents: the most samples of a row.
        cache_dir: where stores are kept; None: TORCHPIPE_CACHE, or ``~/.cache/torchpipe``.
        num_proc: processes that tokenise where there is no store yet; None: one a processor.
        by_row: True keeps the samples of a row in one pack, side by side, as a pair's have to be; None: as the recipe
            or the store says, which is True for pairs.

    Each item holds ``tokens``, ``labels`` (-100 = not trained), ``input_pos``: int64 [s], and ``seq_lens``: int64
    [documents], which sums to s; padding is one more document, the last. Where any sample has ``loss_weights``, every
    item has them: float32 [s], 0 in the padding.

    Attributes:
        name: what errors call the samples.
        counts: what became of the rows.
        plan: which samples share a row.
        fingerprint: 32 hexadecimal digits that two share only if their items are equal.
        can_be_read_ahead: True, see :func:`~torchpipe.data.protocols.can_be_read_ahead`.

    Raises:
        DataError: a sample does not fit a row, has no equal number of tokens and labels, or none is left.
        ConfigError: max_seq_len, max_packs or the strategy is not possible.
        StoreError: the store can't be written or read.
    """

    can_be_read_ahead = True
    dataset_arguments = ("ds",)

    def __init__(
        self,
        ds: RandomAccessDataSource[Any] | StoreRecipe | TokenStore,
        *,
        max_seq_len: int,
        padding_idx: int = 0,
        max_packs: int | None = None,
        split_across_pack: bool = False,
        strategy: Strategy | str | Callable[..., Any] | None = None,
        max_documents: int | None = None,
        cache_dir: str | Path | None = None,
        num_proc: int | None = None,
        by_row: bool | None = None,
    ) -> None:
        if isinstance(max_seq_len, bool) or not isinstance(max_seq_len, int):
            raise ConfigError(f"max_seq_len is {max_seq_len!r}. Give a whole number of tokens.")
        if max_packs is not None and (type(max_packs) is not int or max_packs < 0):
            raise ConfigError(f"max_packs is {max_packs}. Give a whole number of rows, or None for all.")
        if strategy is not None and split_across_pack and strategy != "concat_then_split":
            raise ConfigError(
                f"split_across_pack=True is the strategy 'concat_then_split', and strategy is {strategy!r}. Set one."
            )
        self.max_seq_len = max_seq_len
        self.padding_idx = padding_idx
        self._options = {
            "strategy": strategy or ("concat_then_split" if split_across_pack else "next_fit"),
            "max_documents": max_documents,
        }
        self._packed, is_cut = samples_to_pack(
            ds, max_seq_len, max_packs, self._options, cache_dir=cache_dir, num_proc=num_proc, by_row=by_row
        )
        if is_cut and (asked := asked_for()) is not None:
            asked.unfinished.append(self)

    @property
    def name(self) -> str:
        """What errors call the samples."""
        return self._packed.name

    @property
    def counts(self) -> SampleCounts:
        """What became of the rows."""
        return self._packed.counts

    @property
    def ledger(self) -> LedgerSummary:
        """What became of the source's rows: counts by reason, and the first rows of each."""
        return self._packed.ledger()

    def describe(self) -> str:
        """One line: packs, how full they are, documents in each; and how many train nothing, if any does."""
        untrained = int((self.trained_counts == 0).sum())
        return self.plan.describe() + (f"; {untrained:,} of them have nothing to train" if untrained else "")

    @property
    def plan(self) -> PackPlan:
        """Which samples share a row."""
        return self._packed.plan

    @property
    def strategy(self) -> Any:
        """How rows are filled."""
        return self._options["strategy"]

    @property
    def max_documents(self) -> int | None:
        """The most samples of a row; None: any number."""
        return self._options["max_documents"]

    @property
    def recipe(self) -> StoreRecipe | None:
        """How the samples are made; None for a store that was given, and in a copy for another process."""
        return self._packed.recipe

    @property
    def kind(self) -> str | None:
        """What kind of samples is packed; None where it isn't known."""
        return kind_of(self.recipe) or kind_of(self.content)

    @property
    def content(self) -> Samples:
        """The tokenised samples: a store, or in memory."""
        return self._packed.samples

    @property
    def samples(self) -> Any:
        """What was packed, to look at it again (:mod:`torchpipe.audit`): its rows, by the numbers of :meth:`row_of`.

        None for a list, whose tokens need not be held twice, for a store, and in a copy for another process.
        """
        return self._packed.origin()

    @cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that two data sets share only if their items are equal."""
        parts = (self.plan.fingerprint, self._packed.samples.digest, self.max_seq_len, self.padding_idx)
        return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()

    @cached_property
    def trained_counts(self) -> np.ndarray:
        """The labels of each row that are not -100: int64 [rows]."""
        return self._packed.trained_counts()

    @cached_property
    def weight_sums(self) -> np.ndarray | None:
        """The sum of each row's loss weights, float64 [rows]; None where samples have none."""
        return self._packed.weight_sums()

    @cached_property
    def costs(self) -> np.ndarray:
        """What each row costs to train on, for Llama 3 8B (see :data:`~torchpipe.data.packing.LLAMA3_8B_COST`)."""
        return self.costs_of(LLAMA3_8B_COST)

    def costs_of(self, cost: CostModel) -> np.ndarray:
        """What each row costs to train on, padding included: int64 [rows]."""
        return self.plan.costs(cost)

    def replanned(self, seed: int) -> "PackedDataset":
        """The same samples in other rows, chosen by the seed: for an epoch of its own, say. Nothing is read again."""
        copy = PackedDataset.__new__(PackedDataset)
        copy.__dict__ = {key: value for key, value in self.__dict__.items() if key not in _OF_THE_PLAN}
        copy._packed = self._packed.replanned(self.max_seq_len, {**self._options, "seed": seed})
        return copy

    def row_of(self, sample: int) -> tuple[int, int]:
        """The row that a sample (the first number of a span) was made of, and which of the row's samples it is."""
        return row_of_sample(self._rows, sample)

    @cached_property
    def _rows(self) -> np.ndarray:
        return self._packed.samples.rows

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> Sequence[dict[str, torch.Tensor]]:
        """Several items, read at once: what torch's ``DataLoader`` asks for."""
        packs = [self._in_range(index) for index in indices]
        return assemble(self.plan, packs, self._packed.samples, capacity=self.max_seq_len, padding_idx=self.padding_idx)

    def padding_pack(self) -> dict[str, torch.Tensor]:
        """An item of padding alone, which trains nothing."""
        has_weights = self._packed.samples.has_weights
        return padding_pack(self.max_seq_len, padding_idx=self.padding_idx, has_weights=has_weights)

    def spans(self, index: int) -> list[Span]:
        """Which samples a pack holds, in order, and which of their tokens."""
        return self.plan.spans(self._in_range(index))

    def _in_range(self, index: int) -> int:
        index, num_packs = row_number(index), len(self.plan)
        if not -num_packs <= index < num_packs:
            raise IndexError(f"Pack {index} was asked for, and there are {num_packs} packs.")
        return index % num_packs

    def __getstate__(self) -> dict[str, Any]:
        kept = {key: value for key, value in self.__dict__.items() if key not in _OF_THE_PLAN}
        return {**kept, "_packed": self._packed.without_origin()}


_OF_THE_PLAN = ("fingerprint", "trained_counts", "weight_sums", "costs", "_rows")
"""What is worked out from the plan when it is first asked for."""
