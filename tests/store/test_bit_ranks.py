"""Bits counted by words."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.store.bit_ranks import BitRanks


@given(st.lists(st.booleans(), max_size=300))
def test_set_bits_before_every_position_are_counted(bits: list[bool]) -> None:
    ranks = BitRanks(np.packbits(np.array(bits, dtype=bool), bitorder="little"))
    positions = np.arange(len(bits) + 1)
    assert ranks.below(positions).tolist() == [sum(bits[:position]) for position in positions]
