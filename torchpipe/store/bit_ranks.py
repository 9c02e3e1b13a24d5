"""How many bits are set before a place, without a look at each of them."""

import numpy as np


class BitRanks:
    """The set bits before any position of some bits, counted a word of 64 at a time.

    Args:
        packed: uint8, bits in little order.

    >>> bits = np.packbits([0, 1, 1, 0, 1], bitorder="little")
    >>> BitRanks(bits).below(np.array([0, 2, 5])).tolist()
    [0, 1, 3]
    """

    def __init__(self, packed: np.ndarray) -> None:
        padded = np.zeros(-(-len(packed) // 8) * 8 + 8, np.uint8)  # one word more, for the position after the last
        padded[: len(packed)] = packed
        self._words = padded.view("<u8")
        self._before = np.zeros(len(self._words) + 1, np.int64)
        np.cumsum(np.bitwise_count(self._words), out=self._before[1:])

    def below(self, positions: np.ndarray) -> np.ndarray:
        """Set bits before each position, int64; positions run from 0 to the number of bits."""
        word, bit = positions >> 6, (positions & 63).astype(np.uint64)
        lower = self._words[word] & ((np.uint64(1) << bit) - np.uint64(1))
        return self._before[word] + np.bitwise_count(lower)
