"""What is packed, taken apart into documents, and the rows that are put together of parts of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.packing.ramps import ramps
from torchpipe.errors import DataError
from torchpipe.pipeline.sequences import TextSequence

MEDIA = ("pixel_values", "pixel_values_videos")
"""Lists of media that a sample may have, an entry for each."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Documents:
    """Some documents one after the other, without padding.

    Attributes:
        input_ids, labels: integers [n].
        lengths: tokens of each document, int64 [documents], sums to n.
        media: what else the sample holds, by :data:`MEDIA`.
    """

    input_ids: np.ndarray
    labels: np.ndarray
    lengths: np.ndarray
    media: Mapping[str, Sequence[Any]]

    def __len__(self) -> int:
        """How many tokens."""
        return len(self.input_ids)

    @property
    def num_media(self) -> int:
        """How many entries a collator counts: one for each picture, and for each video one for each of its grids of
        patches. Of a video that is pixels each frame counts, which is no less.
        """
        pictures, videos = (self.media.get(name, ()) for name in MEDIA)
        return len(pictures) + sum(
            len(video) if (grid := getattr(video, "grid_thw", None)) is None else int(grid[0]) for video in videos
        )

    def part(self, start: int, stop: int) -> "Documents":
        """Tokens ``start`` to ``stop``: what stands there of each document, as a document of its own."""
        ends = np.cumsum(self.lengths)
        lengths = np.minimum(ends, stop) - np.maximum(ends - self.lengths, start)
        return replace(
            self, input_ids=self.input_ids[start:stop], labels=self.labels[start:stop], lengths=lengths[lengths > 0]
        )

    def cut_to(self, longest: int) -> "Documents":
        """The same tokens, each document cut into such of at most ``longest`` tokens.

        >>> Documents(input_ids=np.arange(7), labels=np.arange(7), lengths=np.array([5, 2]), media={}).cut_to(2).lengths
        array([2, 2, 1, 2])
        """
        if self.lengths.max(initial=0) <= longest:
            return self
        parts = -(-self.lengths // longest)
        begins = longest * ramps(np.zeros_like(parts), parts)
        return replace(self, lengths=np.minimum(longest, np.repeat(self.lengths, parts) - begins))

    def heads(self, longest: int) -> "Documents":
        """The first ``longest`` tokens of each document."""
        kept = ramps(np.zeros_like(self.lengths), self.lengths) < longest
        return replace(
            self,
            input_ids=self.input_ids[kept],
            labels=self.labels[kept],
            lengths=np.minimum(self.lengths, longest),
        )


def documents_of(sample: Any) -> Documents:
    """The documents of a sample, or of a row that was packed before.

    Args:
        sample: a :class:`~torchpipe.pipeline.TextSequence`, or a mapping with its fields and perhaps media. A document
            begins wherever a position is 0; without positions it is one. What ``padding_mask`` marks is no part of it.

    Raises:
        DataError: it is something else, or ids and labels are not as many whole numbers each.
    """
    fields = _fields(sample)
    ids, labels = np.asarray(fields["input_ids"]), np.asarray(fields["labels"])
    if ids.ndim != 1 or ids.shape != labels.shape or (len(ids) and {ids.dtype.kind, labels.dtype.kind} - set("iu")):
        raise DataError(
            f"A row to be packed has input_ids {list(ids.shape)} of {ids.dtype} and labels {list(labels.shape)} of "
            f"{labels.dtype}. Give whole numbers in one dimension, one label for each token."
        )
    positions, mask = fields.get("positions"), fields.get("padding_mask")
    begins = None if positions is None else np.asarray(positions) == 0
    if mask is not None and np.any(mask):
        kept = ~np.asarray(mask, dtype=np.bool_)
        ids, labels, begins = ids[kept], labels[kept], None if begins is None else begins[kept]
    if begins is None or not len(ids):
        lengths = np.full(int(len(ids) > 0), len(ids), np.int64)
    else:
        begins[0] = True
        lengths = np.diff(np.flatnonzero(begins), append=len(ids))
    media = {name: list(fields[name]) for name in MEDIA if fields.get(name) is not None}
    return Documents(input_ids=ids, labels=labels, lengths=lengths, media=media)


def num_tokens_of(sample: Any) -> int:
    """How many tokens a sample has, without padding."""
    fields = _fields(sample)
    mask = fields.get("padding_mask")
    return len(fields["input_ids"]) - (0 if mask is None else int(np.count_nonzero(np.asarray(mask))))


def num_trained_of(sample: Any) -> int:
    """How many labels of a sample are trained."""
    return int(np.count_nonzero(np.asarray(_fields(sample)["labels"]) != IGNORE_INDEX))


def packed_row(
    parts: Sequence[Documents], *, num_tokens: int, max_context_length: int, padding_id: int = 0
) -> TextSequence:
    """The parts one after the other, filled up with padding.

    Padding counts its positions up to ``max_context_length``, as documents do, and trains nothing.

    Args:
        parts: together no more than ``num_tokens``.
        num_tokens: of the row.
        max_context_length: tokens of the longest document.
        padding_id: the token that fills the row.

    Returns:
        ``input_ids``, ``labels``, ``positions``: int64 [num_tokens]; ``padding_mask``: bool [num_tokens].

    >>> part = Documents(input_ids=np.array([5, 6]), labels=np.array([6, 7]), lengths=np.array([2]), media={})
    >>> row = packed_row([part], num_tokens=5, max_context_length=2)
    >>> row.input_ids.tolist(), row.positions.tolist()
    ([5, 6, 0, 0, 0], [0, 1, 0, 1, 0])
    """
    used = sum(map(len, parts))
    if used > num_tokens:
        raise DataError(f"A row of {num_tokens} tokens was given {used}.")
    row = {
        "input_ids": np.full(num_tokens, padding_id, np.int64),
        "labels": np.full(num_tokens, IGNORE_INDEX, np.int64),
        "positions": np.empty(num_tokens, np.int64),
    }
    if parts:
        for name in ("input_ids", "labels"):
            np.concatenate([getattr(part, name) for part in parts], out=row[name][:used], casting="same_kind")
        lengths = np.concatenate([part.lengths for part in parts])
        row["positions"][:used] = ramps(np.zeros_like(lengths), lengths)
    row["positions"][used:] = np.arange(num_tokens - used) % max_context_length
    return TextSequence(**row, padding_mask=np.arange(num_tokens) >= used)


def _fields(sample: Any) -> Mapping[str, Any]:
    if isinstance(sample, TextSequence):
        names = ("input_ids", "labels", "positions", "padding_mask")
        return {name: getattr(sample, name) for name in names}
    if not isinstance(sample, Mapping) or not {"input_ids", "labels"} <= sample.keys():
        raise DataError(
            f"A row to be packed is a {type(sample).__qualname__}, and has to be a TextSequence(input_ids=, labels=) "
            "or a mapping with these keys. Set processor to what makes such of a row, as TextProcessor.Config()."
        )
    return sample
