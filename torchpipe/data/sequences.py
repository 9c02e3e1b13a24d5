"""Token sequences: cutting one to length, and the labels that follow from tokens and mask."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchpipe._suggest import did_you_mean, listed
from torchpipe.constants import IGNORE_INDEX
from torchpipe.errors import ConfigError, DataError

TRUNCATION_TYPES = ("right", "left")


def truncate(
    tokens: Sequence[Any],
    max_seq_len: int | None,
    eos_id: Any | None = None,
    truncation_type: str = "right",
) -> list[Any]:
    """The first (``right``) or last (``left``) ``max_seq_len`` items, as a new list.

    Nothing is changed when nothing is cut. The same call cuts a mask: pass the flag that the last item must have as
    ``eos_id``.

    Args:
        tokens: ids, or a mask, or anything else in a sequence.
        max_seq_len: the most items to keep; None keeps all.
        eos_id: what the last kept item becomes when something was cut; None leaves it as it is.
        truncation_type: the side that is cut away, "right" or "left".

    Raises:
        ConfigError: a negative length or another ``truncation_type``.

    >>> truncate([1, 2, 3, 4], 3, eos_id=0)
    [1, 2, 0]
    >>> truncate([1, 2, 3, 4], 4, eos_id=0)
    [1, 2, 3, 4]
    """
    if truncation_type not in TRUNCATION_TYPES:
        near = did_you_mean(truncation_type, TRUNCATION_TYPES)
        raise ConfigError(
            f"Unknown truncation_type {truncation_type!r}. It is one of {listed(TRUNCATION_TYPES)}.{near}"
        )
    if max_seq_len is None or len(tokens) <= max_seq_len:
        return list(tokens)
    if max_seq_len < 0:
        raise ConfigError(f"max_seq_len={max_seq_len} is negative. Give the number of tokens to keep, or None for all.")
    # tokens[-0:] would be everything, so the start is counted from the front.
    start = len(tokens) - max_seq_len if truncation_type == "left" else 0
    kept = list(tokens[start : start + max_seq_len])
    if kept and eos_id is not None:
        kept[-1] = eos_id
    return kept


def next_token_labels(tokens: Sequence[int] | np.ndarray, mask: Sequence[bool] | np.ndarray) -> np.ndarray:
    """The targets of next-token loss: position i is to predict token ``i + 1``. ::

        tokens   5    6    7    8
        mask     T    T    F    F       True: not trained
        labels -100   7    8  -100

    Args:
        tokens: the ids of one sample, length n.
        mask: length n, True where the token must not be trained on.

    Returns:
        int64 [n]: ``tokens[i + 1]`` where ``mask[i + 1]`` is False, IGNORE_INDEX elsewhere and at the last position.

    Raises:
        DataError: the lengths differ, a side has more than one axis, a token is no id, or the mask no True and False.

    >>> next_token_labels([5, 6, 7, 8], [True, True, False, False]).tolist()
    [-100, 7, 8, -100]
    """
    if len(tokens) != len(mask):
        raise DataError(
            f"A sample has {len(tokens)} tokens and {len(mask)} mask values; the tokenizer must return as many of both."
        )
    labels = np.full(len(tokens), IGNORE_INDEX, dtype=np.int64)
    if len(tokens):
        ids, hidden = np.asarray(tokens), _flags(mask)
        if ids.dtype.kind not in "iu" or ids.ndim != 1 or hidden.ndim != 1:
            raise DataError(
                f"Tokens are {ids.dtype} of shape {list(ids.shape)}, the mask has shape {list(hidden.shape)}. "
                "Both must have one axis, and tokens must be integers."
            )
        if hidden.dtype != np.bool_ and not (hidden.dtype.kind in "iu" and hidden.min() >= 0 and hidden.max() <= 1):
            raise DataError(f"The mask holds {list(mask)[:3]} ...; it must hold True (not trained) and False.")
        if ids.min() < 0 or ids.max() >= 2**31:
            raise DataError(f"Tokens run from {ids.min()} to {ids.max()}; an id is from 0 to 2**31 - 1.")
        np.copyto(labels[:-1], ids[1:], where=trained_positions(hidden, np.array([len(ids)]))[:-1])
    return labels


def unshifted_labels(tokens: Sequence[int] | np.ndarray, mask: Sequence[bool] | np.ndarray) -> np.ndarray:
    """Each token where it is trained, at its own place: what preference losses compare with ``logits[:, :-1]``. ::

        tokens   5    6    7    8
        mask     T    T    F    F       True: not trained
        labels -100 -100   7    8

    The first token, which nothing predicts, is not trained. Arguments and errors are those of
    :func:`next_token_labels`, whose labels stand one place further to the left.

    Returns:
        int64 [n]: ``tokens[i]`` where ``mask[i]`` is False, IGNORE_INDEX elsewhere and at the first position.

    >>> unshifted_labels([5, 6, 7, 8], [True, True, False, False]).tolist()
    [-100, -100, 7, 8]
    """
    return unshifted(next_token_labels(tokens, mask))


def unshifted(labels: np.ndarray) -> np.ndarray:
    """The labels of :func:`next_token_labels`, each at the place of its own token: int64 [n].

    >>> unshifted(np.array([-100, 7, 8, -100])).tolist()
    [-100, -100, 7, 8]
    """
    placed = np.full(len(labels), IGNORE_INDEX, dtype=np.int64)
    placed[1:] = labels[:-1]
    return placed


def document_positions(num_tokens: int, max_context_length: int) -> np.ndarray:
    """The places of tokens in their documents, where each document is as long as it may be: int64 [num_tokens].

    >>> document_positions(5, 3).tolist()
    [0, 1, 2, 0, 1]
    """
    return np.arange(num_tokens, dtype=np.int64) % max_context_length


def shifted(labels: np.ndarray) -> np.ndarray:
    """The labels of :func:`unshifted_labels`, each at the place that predicts it: int64 [n]; the way back.

    >>> shifted(np.array([-100, -100, 7, 8])).tolist()
    [-100, 7, 8, -100]
    """
    return np.append(np.asarray(labels, dtype=np.int64)[1:], IGNORE_INDEX)[: len(labels)]


def trained_positions(mask: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Which positions have a target that is trained, of samples that lie one after another.

    This is the label rule: position i predicts token ``i + 1`` of its own sample, where ``mask[i + 1]`` is 0.

    Args:
        mask: of all samples' tokens, length n; 0 where the token is trained.
        ends: one past the last token of each sample, ascending.

    Returns:
        bool [n].

    >>> trained_positions(np.array([1, 1, 0, 0, 1, 0]), np.array([4, 6])).tolist()
    [False, True, True, False, True, False]
    """
    trained = np.zeros(len(mask), dtype=np.bool_)
    if len(mask):
        np.equal(mask[1:], 0, out=trained[:-1])
        trained[ends - 1] = False
    return trained


def _flags(mask: Sequence[bool] | np.ndarray) -> np.ndarray:
    """The mask as an array; from a list of small numbers, a mask of the usual kind, by the fastest way there is."""
    if type(mask) is list:
        try:
            return np.frombuffer(bytes(mask), dtype=np.uint8)
        except (TypeError, ValueError):
            pass  # no numbers from 0 to 255: the general way tells what they are
    return np.asarray(mask)
