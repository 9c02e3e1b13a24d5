"""Whether spans hold each token of each sample once."""

import numpy as np


def first_fault(
    sample: np.ndarray, start: np.ndarray, stop: np.ndarray, pack_offsets: np.ndarray, lengths: np.ndarray
) -> str | None:
    """What is wrong first with packs that should hold every token once, as a clause; None if nothing is.

    Args:
        sample, start, stop: int64 [spans].
        pack_offsets: int64 [packs + 1]; pack k should be spans ``pack_offsets[k]:pack_offsets[k + 1]``.
        lengths: int64 [samples], tokens of each sample.
    """
    if len(pack_offsets) == 0 or pack_offsets[0] != 0 or pack_offsets[-1] != len(sample):
        return f"its pack_offsets do not run from 0 to {len(sample)}, the number of its spans"
    empty = np.flatnonzero(np.diff(pack_offsets) < 1)
    if empty.size:
        return f"pack {empty[0]} is empty"
    outside = np.flatnonzero((sample < 0) | (sample >= len(lengths)))
    if outside.size:
        return f"sample {sample[outside[0]]} is in a pack, and samples are numbered from 0 to {len(lengths) - 1}"
    order = np.lexsort((start, sample))
    sample, start, stop = sample[order], start[order], stop[order]
    backwards = np.flatnonzero(stop <= start)
    if backwards.size:
        at = backwards[0]
        return f"sample {sample[at]} has a span from {start[at]} to {stop[at]}, which holds no token"
    begins = np.ones(len(sample), dtype=bool)
    begins[1:] = sample[1:] != sample[:-1]
    expected = np.zeros_like(start)
    expected[1:] = stop[:-1]
    expected[begins] = 0
    torn = np.flatnonzero(start != expected)
    if torn.size:
        at = torn[0]
        what = "more than once" if start[at] < expected[at] else "in no pack"
        return f"tokens of sample {sample[at]} from {min(start[at], expected[at])} on are {what}"
    held = np.zeros(len(lengths), dtype=np.int64)
    ends = np.append(begins[1:], True) if len(begins) else begins
    held[sample[ends]] = stop[ends]
    wrong = np.flatnonzero(held != lengths)
    if wrong.size:
        at = wrong[0]
        return f"sample {at} has {lengths[at]} tokens, and packs hold {held[at]} of them"
    return None
