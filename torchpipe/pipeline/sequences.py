"""What processors make of a row of text: tokens, and what each of them is to predict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.sequences import document_positions, next_token_labels
from torchpipe.errors import ColumnError, DataError

LARGEST_ID = np.iinfo(np.uint32).max
"""Of a token, as it is stored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextSequence:
    """A document, or several packed into one row. Labels are shifted already: ``labels[i]`` is what follows
    ``input_ids[i]``, or -100 where it is not trained.

    Attributes:
        input_ids, labels: integers [n].
        positions: integers [n]; a document begins wherever one is 0. None: one document, from 0 on.
        padding_mask: bool [n], True where a token only fills the row; None: nowhere.

    Raises:
        DataError: the arrays are not of one length and one dimension.
    """

    input_ids: np.ndarray
    labels: np.ndarray
    positions: np.ndarray | None = None
    padding_mask: np.ndarray | None = None

    def __post_init__(self) -> None:
        shape = np.shape(self.input_ids)
        for name in ("labels", "positions", "padding_mask"):
            values = getattr(self, name)
            if values is not None and np.shape(values) != shape:
                raise DataError(
                    f"A TextSequence has input_ids {list(shape)} and {name} {list(np.shape(values))}. Give one entry "
                    "for each token."
                )
        if len(shape) != 1:
            raise DataError(f"A TextSequence has input_ids {list(shape)}. Give one dimension: a row has no batch.")


class FreshSequence(TextSequence):
    """A sequence whose numbers, int64 and bool, nothing else holds: its arrays may be kept, and written to.

    They may be parts of larger arrays, of which other sequences have other parts.
    """

    __slots__ = ()


class SequenceArrays(NamedTuple):
    """The numbers of a sequence: int64 [n], positions None where it has none."""

    input_ids: np.ndarray
    labels: np.ndarray
    positions: np.ndarray | None


def checked_arrays(sequence: TextSequence) -> SequenceArrays:
    """The numbers of a sequence that can be trained on.

    Raises:
        ColumnError: ids, labels or positions are no whole numbers; ids or trained labels are below 0, or above what
            32 bits hold.

    >>> checked_arrays(TextSequence(input_ids=np.array([5, -6]), labels=np.array([-6, 7])))
    Traceback (most recent call last):
    torchpipe.errors.ColumnError: input_ids go from -6 to 5. Token ids are whole numbers from 0 to 4294967295.
    """
    ids, labels = (_whole_numbers(name, getattr(sequence, name)) for name in ("input_ids", "labels"))
    positions = None if sequence.positions is None else _whole_numbers("positions", sequence.positions)
    if len(ids) and (ids.min() < 0 or ids.max() > LARGEST_ID):
        raise ColumnError(
            f"input_ids go from {ids.min()} to {ids.max()}. Token ids are whole numbers from 0 to {LARGEST_ID}."
        )
    wrong = labels[((labels < 0) & (labels != IGNORE_INDEX)) | (labels > LARGEST_ID)]
    if len(wrong):
        raise ColumnError(
            f"labels hold {wrong[0]}. They are token ids, from 0 to {LARGEST_ID}, or {IGNORE_INDEX} where nothing is "
            "trained."
        )
    return SequenceArrays(ids, labels, positions)


def _whole_numbers(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise ColumnError(f"{name} are {array.dtype}. Give whole numbers.")
    if array.dtype.kind == "u" and array.size and array.max() > LARGEST_ID:  # as int64 it could be -100
        raise ColumnError(f"{name} hold {array.max()}. They are whole numbers up to {LARGEST_ID}.")
    return array.astype(np.int64, copy=False)


def shifted_sequence(tokens: Sequence[int] | np.ndarray, mask: Sequence[bool] | np.ndarray) -> TextSequence:
    """One document of n tokens as a sequence of n - 1: int64, its labels those of the one label rule.

    Args:
        tokens: n ids.
        mask: n flags, True where the token must not be trained on.

    Raises:
        DataError: they are no ids, or no flags of them (see :func:`~torchpipe.data.sequences.next_token_labels`).

    >>> shifted_sequence([5, 6, 7], [True, True, False]).labels.tolist()
    [-100, 7]
    """
    labels = next_token_labels(tokens, mask)
    return TextSequence(input_ids=np.asarray(tokens, dtype=np.int64)[:-1], labels=labels[:-1])


def sequence_of(row: Any) -> Any:
    """The sequence of a row that is a sample of :mod:`torchpipe.datasets` (``tokens`` and ``labels``); any other row as
    it is.

    The last token has no place in a sequence where it has no label, for it predicts nothing.

    Raises:
        DataError: the sample is a pack, or its tokens have weights.

    >>> sequence = sequence_of({"tokens": [5, 6, 7], "labels": [-100, 7, -100]})
    >>> sequence.input_ids.tolist(), sequence.labels.tolist()
    ([5, 6], [-100, 7])
    """
    if not isinstance(row, Mapping) or not {"tokens", "labels"} <= row.keys():
        return row
    if "seq_lens" in row:
        raise DataError("The row is a pack of a PackedDataset. Leave packed out there, and pack in the graph.")
    if "loss_weights" in row:
        raise DataError(
            "The row has loss_weights, and a TextSequence has no place for them. Round the weights of its messages to "
            "0 or 1, or train on the data set itself."
        )
    ids, labels = (np.asarray(row[name], dtype=np.int64) for name in ("tokens", "labels"))
    end = len(ids) - int(len(labels) > 0 and labels[-1] == IGNORE_INDEX)
    return TextSequence(input_ids=ids[:end], labels=labels[:end])


def joined_documents(documents: Sequence[TextSequence]) -> TextSequence:
    """The documents in one sequence, whose positions begin anew with each. One document is given back as it is.

    Args:
        documents: one or more, each without positions of its own.

    >>> two = [shifted_sequence([5, 6, 7], [0, 0, 0]), shifted_sequence([8, 9], [0, 0])]
    >>> joined_documents(two).positions.tolist()
    [0, 1, 0]
    """
    if len(documents) == 1:
        return documents[0]
    lengths = [len(document.input_ids) for document in documents]
    return TextSequence(
        input_ids=np.concatenate([document.input_ids for document in documents]),
        labels=np.concatenate([document.labels for document in documents]),
        positions=np.concatenate([document_positions(length, length) for length in lengths]),
    )
