"""Rows to the batch that one rank trains on at once: a flat run of tokens of a fixed length."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from torchpipe.config.configurable import Configurable
from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.padding import join_rows
from torchpipe.data.sequences import document_positions
from torchpipe.errors import ColumnError, DataError
from torchpipe.pipeline.sequences import FreshSequence, TextSequence
from torchpipe.pipeline.types import DatasetBuildContext

TrainerBatch = tuple[dict[str, Any], torch.Tensor]
"""What a model is called with, by name, and the labels, which are shifted already."""

PADDING_ID = 0
"""The token that fills a batch. Nothing is trained at it, and ``padding_mask`` tells it from the token of that id."""


class Collator(Configurable, ABC):
    """Makes a batch of rows.

    Args:
        config: its settings.
        context: what all nodes of the graph share.
    """

    class Config(Configurable.Config):
        """The settings; a subclass adds fields, in a dataclass that may be changed or in a frozen one."""

        __slots__ = ()

    def __init__(self, config: Any, *, context: DatasetBuildContext) -> None:
        self.config = config
        self.context = context

    @abstractmethod
    def __call__(self, rows: Sequence[Any]) -> TrainerBatch:
        """The batch of these rows, one or more."""

    def padding(self) -> TrainerBatch:
        """The batch of a rank whose rows have ended before those of others: that of one row of padding alone."""
        return self([_padding_row(self.context)])

    def num_rows_per_batch(self) -> int:
        """How many rows it is given at once: 1, a packed row that is a whole batch."""
        return 1


class TextCollator(Collator):
    """Joins rows of text, and fills the batch up to ``num_tokens_per_batch`` tokens T.

    ==================  ===============  =================================================================
    key                 value            padding
    ==================  ===============  =================================================================
    ``input``           int64 [T]        0
    ``positions``       int64 [T]        documents of up to ``max_context_length`` tokens, from 0 on
    ``padding_mask``    bool [T]         True
    ``num_valid_tokens``  int            how many labels are trained: the loss's denominator
    ``cu_seqlens``      int32            only where the context has ``max_num_documents``; see below
    ==================  ===============  =================================================================

    The labels, int64 [T], are -100 on padding. A document begins wherever a position is 0.

    ``cu_seqlens`` are the offsets of the documents, then T, repeated up to a length that is the same for all batches:
    ``max_num_documents + ceil(T / max_context_length) + 1``. The second part is the room for the documents of padding,
    which are cut at ``max_context_length`` as the positions are, so that no document is longer than that.

    Each batch is a memory of its own: nothing that was handed out is written again.

    >>> context = DatasetBuildContext(tokenizer=None, max_context_length=3, num_tokens_per_batch=6)
    >>> collate = TextCollator.Config().build(context=context)
    >>> batch, labels = collate([TextSequence(input_ids=np.array([7, 8]), labels=np.array([8, 9]))])
    >>> batch["input"].tolist(), batch["positions"].tolist(), batch["num_valid_tokens"]
    ([7, 8, 0, 0, 0, 0], [0, 1, 0, 1, 2, 0], 2)
    """

    @dataclass(kw_only=True, slots=True)
    class Config(Collator.Config):
        """The settings.

        Attributes:
            pin_memory: whether batches lie in page-locked memory; None: where there is an accelerator, which is asked
                for in the process that makes the first batch.
        """

        pin_memory: bool | None = None

    def __init__(self, config: Config, *, context: DatasetBuildContext) -> None:
        super().__init__(config, context=context)
        self._pins: bool | None = config.pin_memory

    def __call__(self, rows: Sequence[TextSequence]) -> TrainerBatch:
        """The batch of these rows; no rows give one of padding alone.

        Raises:
            DataError: there are more tokens than a batch has, or more documents than ``max_num_documents``; or a row
                is no :class:`~torchpipe.pipeline.TextSequence` (a ColumnError).
        """
        others = [row for row in rows if not isinstance(row, TextSequence)]
        if others:
            raise ColumnError(
                f"A row of a batch of text is a {type(others[0]).__name__}. Let the processor give "
                "TextSequence(input_ids=, labels=), or give the loader the collator of such rows."
            )
        return joined_text(rows, context=self.context, pin_memory=self.pins_memory)

    @property
    def pins_memory(self) -> bool:
        """Whether batches lie in page-locked memory."""
        if self._pins is None:
            self._pins = torch.accelerator.is_available()
        return self._pins


def collated(collator: Collator, rows: Sequence[Any]) -> TrainerBatch:
    """The batch of some rows; of none, one of padding."""
    if rows:
        return collator(rows)
    try:
        return collator.padding()
    except Exception as error:
        error.add_note(
            f"{type(collator).__qualname__} was asked for a batch of padding, for a rank whose rows have ended. "
            "Where it can't make one of a row whose padding_mask is True, define its method padding()."
        )
        raise


def joined_text(
    rows: Sequence[TextSequence],
    *,
    context: DatasetBuildContext,
    pin_memory: bool,
    padding_id: int = PADDING_ID,
    kind: str = "text",
) -> TrainerBatch:
    """The batch of :class:`TextCollator`, filled with another id, and called by another kind in an error.

    Raises:
        DataError: there are more tokens than a batch has, or more documents than ``max_num_documents``.
    """
    length, longest = context.num_tokens_per_batch, context.max_context_length
    num_tokens = sum(len(row.input_ids) for row in rows)
    if num_tokens > length:
        raise DataError(
            f"{kind} rows exceed the configured token batch: {len(rows)} rows have {num_tokens} tokens, and "
            f"num_tokens_per_batch is {length}. Raise it, or pack the rows, which keeps them within it."
        )
    is_whole = len(rows) == 1 and num_tokens == length and isinstance(rows[0], FreshSequence)
    join = _taken if is_whole and not pin_memory else partial(join_rows, length=length, pin_memory=pin_memory)
    labels = join([row.labels for row in rows], tail=IGNORE_INDEX, dtype=torch.int64)
    positions = join(
        [positions_of(row, longest) for row in rows],
        tail=document_positions(length - num_tokens, longest),
        dtype=torch.int64,
    )
    batch: dict[str, Any] = {
        "input": join([row.input_ids for row in rows], tail=padding_id, dtype=torch.int64),
        "positions": positions,
        "padding_mask": join([_padding_of(row) for row in rows], tail=True, dtype=torch.bool),
        "num_valid_tokens": int(np.count_nonzero(labels.numpy() != IGNORE_INDEX)),
    }
    if context.max_num_documents is not None:
        batch["cu_seqlens"] = _offsets(positions.numpy(), batch["padding_mask"].numpy(), context, pin_memory)
    return batch, labels


def _taken(rows: Sequence[np.ndarray], *, tail: Any, dtype: torch.dtype) -> torch.Tensor:
    """The only row, which fills the batch, in the memory that it has."""
    return torch.from_numpy(rows[0])


def _offsets(
    positions: np.ndarray, padding_mask: np.ndarray, context: DatasetBuildContext, pin_memory: bool
) -> torch.Tensor:
    """Where each document starts, then the number of tokens as often as the length asks for: int32."""
    starts = np.flatnonzero(positions == 0)
    if len(starts) == 0 or starts[0] != 0:  # a row that goes on from one that is in no batch
        starts = np.concatenate([[0], starts])
    length, cap = len(positions), context.max_num_documents
    assert cap is not None
    num_documents = len(starts) - int(padding_mask[starts].sum())
    room = cap + -(-length // context.max_context_length)
    if num_documents > cap or len(starts) > room:
        raise DataError(
            f"The batch has {num_documents} documents, and {len(starts) - num_documents} of padding, where "
            f"max_num_documents is {cap}. Raise it, or pack the rows, which keeps them within it."
        )
    return join_rows([starts], length=room + 1, tail=length, dtype=torch.int32, pin_memory=pin_memory)


def _padding_row(context: DatasetBuildContext) -> TextSequence:
    length = context.num_tokens_per_batch
    return TextSequence(
        input_ids=np.full(length, PADDING_ID),
        labels=np.full(length, IGNORE_INDEX),
        positions=document_positions(length, context.max_context_length),
        padding_mask=np.ones(length, dtype=np.bool_),
    )


def positions_of(row: TextSequence, max_context_length: int) -> np.ndarray:
    """The row's positions; those of one document, cut at ``max_context_length``, where it has none."""
    return document_positions(len(row.input_ids), max_context_length) if row.positions is None else row.positions


def _padding_of(row: TextSequence) -> np.ndarray:
    return np.zeros(len(row.input_ids), dtype=np.bool_) if row.padding_mask is None else row.padding_mask
