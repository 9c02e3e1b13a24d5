"""What of a sample goes into a row, where it has more of something than a row may have."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from torchpipe.data.overflow import Overflow
from torchpipe.errors import DataError
from torchpipe.pipeline.by_grain.ledger import NodeLedger
from torchpipe.pipeline.by_grain.packed_rows import Documents, documents_of
from torchpipe.pipeline.types import DatasetBuildContext


@dataclass(frozen=True, kw_only=True, eq=False)
class SampleFit:
    """Applies the limits of a row to each sample as a whole.

    Attributes:
        context: with the most tokens of a document and of a row, and the most documents of a row.
        overflow: what becomes of a sample that has more.
        max_media: the most media of a row; None: no limit.
        ledger: where what is lost is counted.
    """

    context: DatasetBuildContext
    overflow: Overflow
    max_media: int | None
    ledger: NodeLedger

    def units(self, sample: Any, number: int) -> list[Documents]:
        """What is packed of a sample, each as a whole; mostly the sample itself.

        Args:
            sample: see :func:`~torchpipe.pipeline.by_grain.packed_rows.documents_of`.
            number: of the sample, for errors.

        Raises:
            DataError: it is no such, or it is too long and the policy is "error".
        """
        documents = documents_of(sample)
        num_tokens = len(documents)
        self.ledger.took(tokens=num_tokens)
        excess = self._excess(documents)
        if not num_tokens:
            self.ledger.left_out("empty")
            return []
        if excess is None:
            return [documents]
        reason, told = excess
        if self.overflow == "error":
            raise DataError(
                f"Sample {number} to be packed has {told}. Raise that, or set overflow to 'drop', 'truncate' or "
                "'split'.",
                reason="too_long",
            )
        if self.overflow == "drop":
            self.ledger.left_out(reason, tokens=num_tokens)
            return []
        if self.overflow == "truncate":
            kept = self._first(documents.heads(self.context.max_context_length), 0)
            self.ledger.left_out("truncated", rows=0, tokens=num_tokens - len(kept))
            return [kept]
        self.ledger.split()
        return list(self._parts(documents.cut_to(self.context.max_context_length)))

    def _excess(self, documents: Documents) -> tuple[str, str] | None:
        """Of what a sample has too much: the reason to leave it out, and a part of a sentence."""
        context = self.context
        longest, num_documents = int(documents.lengths.max(initial=0)), len(documents.lengths)
        if longest > context.max_context_length:
            return "too_long", f"a document of {longest} tokens, and max_context_length is {context.max_context_length}"
        if len(documents) > context.num_tokens_per_batch:
            return (
                "too_long",
                f"{len(documents)} tokens, and a row has num_tokens_per_batch={context.num_tokens_per_batch}",
            )
        cap = context.max_num_documents
        if cap is not None and num_documents > cap:
            return "over_cap", f"{num_documents} documents, and a row has max_num_documents={cap}"
        if self.max_media is not None and documents.num_media > self.max_media:
            return "over_cap", f"{documents.num_media} images, and a row has max_images_per_row={self.max_media}"
        return None

    def _parts(self, documents: Documents) -> Iterator[Documents]:
        start = 0
        while start < len(documents):
            part = self._first(documents, start)
            yield part
            start += len(part)

    def _first(self, documents: Documents, start: int) -> Documents:
        """What of the documents from a token on a row may hold."""
        stop = min(len(documents), start + self.context.num_tokens_per_batch)
        if (cap := self.context.max_num_documents) is not None:
            ends = np.cumsum(documents.lengths)
            begun = int(np.searchsorted(ends, start, side="right"))
            stop = min(stop, int(ends[min(begun + cap, len(ends)) - 1]))
        return documents.part(start, stop)
