"""Seeds and orders, derived by hashing.

A seed is never ``root + i``: two nodes of one run would then repeat each other's choices. An order is the argsort of
hashed indices rather than a generator's stream, which a NumPy release may change under a resumed run.
"""

import hashlib

import numpy as np


def derive(root: int, *path: str | int) -> int:
    """A 64-bit seed for one purpose: the hash of ``root`` and a path of names and numbers.

    >>> derive(0, "shuffle", 1) == derive(0, "shuffle", 1)
    True
    >>> derive(0, "shuffle", 1) == derive(0, "shuffle", 2)
    False
    """
    text = "\x1f".join([str(root), *(f"{type(part).__name__}:{part}" for part in path)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def hashed_permutation(num_items: int, seed: int) -> np.ndarray:
    """A permutation of ``range(num_items)``, int64 [num_items], that depends on nothing but its two arguments.

    Items are sorted by a 64-bit mix of (seed, index). The mix is a bijection, so no two keys are equal.

    >>> sorted(hashed_permutation(5, seed=7).tolist())
    [0, 1, 2, 3, 4]
    """
    keys = _mix(_mix(np.arange(num_items, dtype=np.uint64)) ^ np.uint64(seed % 2**64))
    return np.argsort(keys, kind="stable").astype(np.int64, copy=False)


def _mix(keys: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, 2014) on uint64 keys; arithmetic wraps."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    return keys ^ (keys >> np.uint64(31))
