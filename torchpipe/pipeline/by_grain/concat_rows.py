"""Documents one after the other, cut into rows: the stream of a ConcatThenSplitPackingConfig."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from torchpipe.errors import DataError
from torchpipe.pipeline.by_grain.ledger import NodeLedger
from torchpipe.pipeline.by_grain.library import grain
from torchpipe.pipeline.by_grain.packed_rows import Documents, documents_of, packed_row
from torchpipe.pipeline.by_grain.reading import as_stream
from torchpipe.pipeline.node_label import node_label
from torchpipe.pipeline.packing import ConcatThenSplitPackingConfig
from torchpipe.pipeline.sequences import TextSequence
from torchpipe.pipeline.types import DatasetBuildContext, DatasetIterationPolicy


def built_concat_rows(
    config: ConcatThenSplitPackingConfig, context: DatasetBuildContext, policy: DatasetIterationPolicy
) -> "ConcatRows":
    """The data set of a :class:`~torchpipe.pipeline.ConcatThenSplitPackingConfig`; see there."""
    dataset = config.dataset.build(context=context, dataset_iteration_policy=policy)
    return ConcatRows(
        as_stream(dataset, context),
        context,
        pads_last_row=config.last_row == "pad",
        ledger=NodeLedger(node_label(config)),
    )


class ConcatRows(grain.IterDataset[TextSequence]):
    """Rows of ``num_tokens_per_batch`` tokens, cut from the documents as they come.

    Args:
        parent: the documents.
        context: with the lengths, and perhaps with the most documents of a row.
        pads_last_row: whether the last row is filled, or left out.
        ledger: where tokens are counted.
    """

    def __init__(
        self, parent: grain.IterDataset[Any], context: DatasetBuildContext, *, pads_last_row: bool, ledger: NodeLedger
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._pads_last_row = pads_last_row
        self.ledger = ledger

    def __iter__(self) -> grain.DatasetIterator[TextSequence]:
        return _ConcatIterator(self._parent.__iter__(), self._context, self._pads_last_row, self.ledger)

    def __str__(self) -> str:
        return f"ConcatRows({self.ledger.name})"


@dataclass(kw_only=True)
class _Rest:
    """What is left of a sample of which a row took the begin.

    Attributes:
        documents: all of the sample.
        ends: where each of its documents ends, int64 [documents].
        offset: tokens of it that were given.
        before: the state in front of it.
    """

    documents: Documents
    ends: np.ndarray
    offset: int
    before: dict[str, Any]


class _ConcatIterator(grain.DatasetIterator[TextSequence]):
    """Its state is that in front of the sample that the next row begins within, and how much of it was given."""

    def __init__(
        self,
        parent: grain.DatasetIterator[Any],
        context: DatasetBuildContext,
        pads_last_row: bool,
        ledger: NodeLedger,
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._pads_last_row = pads_last_row
        self._ledger = ledger
        self._rest: _Rest | None = None
        self._finished = False

    def __next__(self) -> TextSequence:
        self._assert_not_closed()
        capacity, cap = self._context.num_tokens_per_batch, self._context.max_num_documents
        parts: list[Documents] = []
        room, num_documents = capacity, 0
        while room and num_documents != cap and (rest := self._sample()) is not None:
            stop = self._stop(rest, room)
            part = rest.documents.part(rest.offset, stop)
            parts.append(part)
            room -= len(part)
            num_documents += len(part.lengths)
            rest.offset = stop
            if stop == len(rest.documents):
                self._rest = None
        used = capacity - room
        is_partial = room > 0 and num_documents != cap
        if used and is_partial and not self._pads_last_row:
            self._ledger.left_out("last_row", rows=0, tokens=used)
        if not used or (is_partial and not self._pads_last_row):
            raise StopIteration
        self._ledger.gave(tokens=used, padding=room)
        return packed_row(parts, num_tokens=capacity, max_context_length=self._context.max_context_length)

    def _stop(self, rest: _Rest, room: int) -> int:
        """Up to where the sample goes into a row with so much room: all that fits, or the next document where
        documents are counted.
        """
        stop = min(len(rest.documents), rest.offset + room)
        if self._context.max_num_documents is None:
            return stop
        end = int(rest.ends[np.searchsorted(rest.ends, rest.offset, side="right")])
        return min(stop, end, rest.offset + self._context.max_context_length)

    def _sample(self) -> _Rest | None:
        """What is left of the last sample, or the next one."""
        while self._rest is None and not self._finished:
            before = self._parent.get_state()
            try:
                sample = next(self._parent)
            except StopIteration:
                self._finished = True
                break
            documents = self._documents(sample)
            self._ledger.took(tokens=len(documents))
            if len(documents):
                self._rest = _Rest(documents=documents, ends=np.cumsum(documents.lengths), offset=0, before=before)
            else:
                self._ledger.left_out("empty")
        return self._rest

    def _documents(self, sample: Any) -> Documents:
        documents = documents_of(sample)
        if self._context.max_num_documents is not None:
            return documents  # a document that goes on in the next row has the whole context before it again
        return documents.cut_to(self._context.max_context_length)

    def get_state(self) -> dict[str, Any]:
        rest = self._rest
        return {
            "parent": self._parent.get_state() if rest is None else rest.before,
            "has_remainder": rest is not None,
            "remainder_offset": 0 if rest is None else rest.offset,
            "finished": self._finished,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        if (rest := self._rest) is not None:
            self._ledger.left_out("set_back", rows=0, tokens=len(rest.documents) - rest.offset)
        self._parent.set_state(state["parent"])
        self._rest, self._finished = None, state["finished"]
        if not state["has_remainder"]:
            return
        sample = next(self._parent, None)
        documents = self._documents({"input_ids": (), "labels": ()} if sample is None else sample)
        offset = state["remainder_offset"]
        if not 0 <= offset < len(documents):
            raise DataError(
                f"The state says that a row ended within a document, after {offset} tokens, and it has "
                f"{len(documents)}. The data or its processor are not those that the state is of."
            )
        self._ledger.took(tokens=len(documents) - offset)
        self._rest = _Rest(
            documents=documents, ends=np.cumsum(documents.lengths), offset=offset, before=state["parent"]
        )

    def __str__(self) -> str:
        return f"ConcatIterator({self._ledger.name})"
