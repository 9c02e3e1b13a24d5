"""The order in which an epoch reads packs."""

import numpy as np

from torchpipe._seeds import derive, hashed_permutation


def epoch_order(num_packs: int, *, seed: int, epoch: int, shuffle: bool) -> np.ndarray:
    """The order of an epoch's packs, int64 [num_packs]: a pure function of the arguments.

    Args:
        shuffle: False: as they come, in every epoch.

    >>> epoch_order(4, seed=0, epoch=1, shuffle=False).tolist()
    [0, 1, 2, 3]
    >>> epoch_order(8, seed=0, epoch=0, shuffle=True).tolist()
    [6, 2, 1, 5, 4, 0, 7, 3]
    """
    if not shuffle:
        return np.arange(num_packs, dtype=np.int64)
    return hashed_permutation(num_packs, derive(seed, "shuffle", epoch))
