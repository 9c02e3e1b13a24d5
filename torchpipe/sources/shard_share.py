"""Which shards of a stream each of several parts reads in an epoch, and which rows of those that parts share."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd


@dataclass(frozen=True, kw_only=True)
class ShardShare:
    """What one part reads of an epoch.

    As many shards as can be are dealt whole, one for each part in turn. The rest is shared: groups of parts get equally
    many of them, and each part of a group reads all of the group's, and keeps every so many-th row.

    Attributes:
        whole: shards that no other part reads, in order.
        shared: shards that other parts read too, in order, after the whole ones.
        keeps: of the rows of the shared shards, counted through, which it keeps: row n where n mod ``of`` is this.
        of: parts that read the shared shards.
    """

    whole: tuple[int, ...]
    shared: tuple[int, ...]
    keeps: int
    of: int

    @property
    def shards(self) -> tuple[int, ...]:
        """All that it reads, in order."""
        return self.whole + self.shared


def share_of(order: Sequence[int], *, part: int, num_parts: int) -> ShardShare:
    """What a part reads of an epoch, so that all parts together read each row once.

    Of S shards and L parts, each part reads floor(S / L) whole ones and (S mod L) / gcd(S mod L, L) that it shares:
    no more than is needed for the parts to have equally many shards, and all of them where S < L and nothing divides.

    Args:
        order: the shards of the epoch.
        part: which part, from 0.
        num_parts: of how many.

    >>> [share_of(range(6), part=part, num_parts=4).shards for part in range(4)]
    [(0, 4), (1, 5), (2, 4), (3, 5)]
    >>> share_of(range(6), part=2, num_parts=4)
    ShardShare(whole=(2,), shared=(4,), keeps=1, of=2)
    """
    num_whole = len(order) - len(order) % num_parts
    rest = order[num_whole:]
    num_groups = gcd(len(rest), num_parts)
    return ShardShare(
        whole=tuple(order[part:num_whole:num_parts]),
        shared=tuple(rest[part % num_groups :: num_groups]),
        keeps=part // num_groups,
        of=num_parts // num_groups,
    )
