"""Parts of a stream share its shards: each row once, and no part reads more shards than it needs."""

from collections import Counter
from math import gcd

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.sources.shard_share import share_of


@given(sizes=st.lists(st.integers(0, 7), max_size=30), num_parts=st.integers(1, 24))
def test_each_row_is_one_parts_and_parts_have_equally_many(sizes: list[int], num_parts: int) -> None:
    rows: Counter[tuple[int, int]] = Counter()
    of_shared: Counter[tuple[int, ...]] = Counter()
    for part in range(num_parts):
        share = share_of(range(len(sizes)), part=part, num_parts=num_parts)
        rows.update((shard, row) for shard in share.whole for row in range(sizes[shard]))
        shared = [(shard, row) for shard in share.shared for row in range(sizes[shard])]
        rows.update(shared[share.keeps :: share.of])
        of_shared[share.shared] += 1
        # Within a group, parts differ by one row at most.
        assert len(shared[share.keeps :: share.of]) in (len(shared) // share.of, -(-len(shared) // share.of))
    assert rows == Counter((shard, row) for shard, size in enumerate(sizes) for row in range(size))
    assert len(set(of_shared.values())) == 1


@given(num_shards=st.integers(0, 200), num_parts=st.integers(1, 80))
def test_a_part_reads_no_more_shards_than_an_equal_share_needs(num_shards: int, num_parts: int) -> None:
    rest = num_shards % num_parts
    for part in range(num_parts):
        share = share_of(range(num_shards), part=part, num_parts=num_parts)
        assert len(share.whole) == num_shards // num_parts
        assert len(share.shared) == rest // gcd(rest, num_parts)
        assert len(set(share.shards)) == len(share.shards)


@pytest.mark.parametrize(("num_shards", "num_parts", "read"), [(1000, 64, 1280), (5, 4, 8), (40, 64, 320), (1, 4, 4)])
def test_how_often_shards_are_read_by_all_parts_together(num_shards: int, num_parts: int, read: int) -> None:
    shares = [share_of(range(num_shards), part=part, num_parts=num_parts) for part in range(num_parts)]
    assert sum(len(share.shards) for share in shares) == read
