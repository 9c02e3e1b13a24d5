"""Documents: samples, or their parts, as the overflow policy leaves them before they are packed."""

from dataclasses import dataclass
from typing import get_args

import numpy as np

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.overflow import Overflow
from torchpipe.errors import ConfigError, DataError


@dataclass(frozen=True, kw_only=True)
class Documents:
    """What is to be packed, one number each.

    Attributes:
        lengths: tokens of each, integers; 0: it is left out.
        sample: int64, the sample that each is of; None where document i is sample i.
        start: int64, its first token; None where all begin at 0.
        num_truncated: tokens that were cut off.
    """

    lengths: np.ndarray
    sample: np.ndarray | None = None
    start: np.ndarray | None = None
    num_truncated: int = 0

    def samples(self, documents: np.ndarray) -> np.ndarray:
        """The samples of some documents."""
        return documents if self.sample is None else self.sample[documents]


def documents_of(lengths: np.ndarray, longest: int, overflow: Overflow, *, cut: bool) -> Documents:
    """The documents of samples. Where ``cut``, none is longer than ``longest`` tokens if the policy cuts.

    Raises:
        ConfigError: there is no such policy.
    """
    if overflow not in get_args(Overflow):
        hint = did_you_mean(overflow, get_args(Overflow))
        raise ConfigError(f"overflow is {overflow!r}. It is one of {listed(get_args(Overflow))}.{hint}")
    if not cut or overflow in ("error", "drop") or int(lengths.max(initial=0)) <= longest:
        return Documents(lengths=lengths)
    if overflow == "truncate":
        kept = np.minimum(lengths, longest)
        return Documents(lengths=kept, num_truncated=int(lengths.sum(dtype=np.int64) - kept.sum(dtype=np.int64)))
    lengths = lengths.astype(np.int64)  # narrow integers would wrap below
    parts = np.maximum(-(-lengths // longest), 1)
    sample = np.repeat(np.arange(len(lengths)), parts)
    start = (np.arange(len(sample)) - np.repeat(np.cumsum(parts) - parts, parts)) * longest
    return Documents(lengths=np.minimum(lengths[sample] - start, longest), sample=sample, start=start)


def checked_lengths(lengths: object) -> np.ndarray:
    """Lengths as an array of integers, unchanged where they are one.

    Raises:
        DataError: they are no whole numbers of 0 or more, in one axis.
    """
    values = np.asarray(lengths)
    if values.size == 0 and values.ndim == 1:
        values = values.astype(np.int64)
    if values.dtype.kind not in "iu" or values.ndim != 1:
        raise DataError(
            f"lengths are {values.dtype} {list(values.shape)}. Give whole numbers, the tokens of each sample, in one "
            "axis."
        )
    if values.size and int(values.min()) < 0:
        sample = int(np.argmin(values))
        raise DataError(f"lengths: sample {sample} has {values[sample]} tokens. Give 0 or more.")
    if values.dtype == np.uint64:
        if values.size and int(values.max()) >= 1 << 63:
            raise DataError(f"lengths: sample {int(np.argmax(values))} has {values.max()} tokens, which is no length.")
        return values.astype(np.int64)
    return values
