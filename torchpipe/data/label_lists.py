"""Labels as lists, for samples whose tokens and mask are lists."""

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.sequences import next_token_labels

_IDS = "I"  # unsigned, 32 bits


def as_list(values: Sequence[int] | np.ndarray) -> list[int]:
    """The numbers as a list of Python's own.

    >>> as_list(np.array([5, 6], dtype=np.uint32))
    [5, 6]
    """
    return values.tolist() if isinstance(values, np.ndarray) else list(map(int, values))


def label_list(tokens: list[int], mask: list[bool] | np.ndarray) -> list[int]:
    """What :func:`~torchpipe.data.sequences.next_token_labels` gives for tokens and mask, as a list.

    The labels are the tokens' own numbers, copied a stretch at a time; a list that is no list of ids, or no mask, goes
    the general way, which says what is wrong.

    Raises:
        DataError: as :func:`~torchpipe.data.sequences.next_token_labels`.

    >>> label_list([5, 6, 7, 8], [True, True, False, False])
    [-100, 7, 8, -100]
    """
    hidden = _mask_bytes(tokens, mask)
    if hidden is None:
        return next_token_labels(tokens, mask).tolist()
    labels = [IGNORE_INDEX] * len(tokens)
    start = hidden.find(0, 1)
    while start >= 0:
        stop = hidden.find(1, start)
        stop = len(hidden) if stop < 0 else stop
        labels[start - 1 : stop - 1] = tokens[start:stop]
        start = hidden.find(0, stop)
    return labels


def unshifted_label_list(tokens: list[int], mask: list[bool] | np.ndarray) -> list[int]:
    """What :func:`~torchpipe.data.sequences.unshifted_labels` gives for tokens and mask, as a list.

    Raises:
        DataError: as :func:`~torchpipe.data.sequences.next_token_labels`.

    >>> unshifted_label_list([5, 6, 7, 8], [True, True, False, False])
    [-100, -100, 7, 8]
    """
    return [IGNORE_INDEX, *label_list(tokens, mask)[:-1]] if tokens else []


def labelled(sample: Mapping[str, Any]) -> dict[str, Any]:
    """The sample with the ``labels`` that its ``tokens`` and ``mask`` stand for, a list; those that it has stay.

    >>> labelled({"tokens": [5, 6], "mask": [True, False]})["labels"]
    [6, -100]
    """
    if "labels" in sample:
        return dict(sample)
    return {**sample, "labels": label_list(sample["tokens"], sample["mask"])}


def _mask_bytes(tokens: list[int], mask: list[bool] | np.ndarray) -> bytes | None:
    """The mask as bytes 0 and 1; None where the two are not what nearly all samples are."""
    if not (type(tokens) is list and tokens and len(tokens) == len(mask) and type(tokens[0]) is int):
        return None
    flags = mask.ndim == 1 and mask.dtype == np.bool_ if isinstance(mask, np.ndarray) else type(mask) is list
    if not flags:
        return None
    try:
        ids, hidden = np.frombuffer(array(_IDS, tokens), dtype=np.uint32), bytes(mask)
    except (TypeError, ValueError, OverflowError):
        return None
    return hidden if ids.max() < 2**31 and not hidden.translate(None, b"\0\1") else None
