"""Which rank and micro-batch gets which pack of a step, by integer cost."""

import heapq
from itertools import pairwise
from typing import Literal, get_args

import numpy as np

from torchpipe._seeds import derive, hashed_permutation
from torchpipe._suggest import did_you_mean, listed
from torchpipe.errors import ConfigError

Balance = Literal["none", "within_step", "steps"]
"""What is evened by cost.

``none``: packs go to micro-batches and ranks in order. ``within_step``: the packs of a step go where they even the
ranks out; which packs form a step stays as it is. ``steps``: also the steps have even costs.
"""


def check_balance(word: str) -> None:
    """Checks that it is one of :data:`Balance`.

    Raises:
        ConfigError: it is another.
    """
    if word not in (words := get_args(Balance)):
        raise ConfigError(f"balance is {word!r}. It is one of {listed(words)}.{did_you_mean(word, words)}")


PADDING = -1
"""Stands in a layout where a padding pack does, which has no trained token."""


def num_micro_batches(global_batch_size: int, *, world_size: int, batch_size: int) -> int:
    """The micro-batches of every rank in every step: as few as hold ``global_batch_size`` packs.

    >>> num_micro_batches(10, world_size=2, batch_size=2)
    3
    """
    return -(-global_batch_size // (world_size * batch_size))


def laid_out(
    packs: np.ndarray,
    costs: np.ndarray | None,
    *,
    balance: Balance,
    global_batch_size: int,
    world_size: int,
    batch_size: int,
) -> np.ndarray:
    """Which packs of a step each rank trains on, int64 [world_size, accumulation, batch_size]; -1 is a padding pack.

    Args:
        packs: of the step, in order; costs: theirs, or None, which leaves them in that order.
        global_batch_size: packs of a whole step.
    """
    accumulation = num_micro_batches(global_batch_size, world_size=world_size, batch_size=batch_size)
    is_free = world_size * accumulation > 1 and balance != "none"  # whether there is a choice
    if not is_free or costs is None:
        return in_order(packs, world_size=world_size, accumulation=accumulation, batch_size=batch_size)
    return by_cost(packs, costs, world_size=world_size, accumulation=accumulation, batch_size=batch_size)


def in_order(packs: np.ndarray, *, world_size: int, accumulation: int, batch_size: int) -> np.ndarray:
    """The packs laid out as they come, int64 [world_size, accumulation, batch_size]; the rest is ``PADDING``.

    Micro-batches are filled one after another, and in each the ranks one after another.

    >>> in_order(np.arange(5), world_size=2, accumulation=2, batch_size=2).tolist()
    [[[0, 1], [4, -1]], [[2, 3], [-1, -1]]]
    """
    slots = np.full(accumulation * world_size * batch_size, PADDING, dtype=np.int64)
    slots[: len(packs)] = packs
    return slots.reshape(accumulation, world_size, batch_size).transpose(1, 0, 2).copy()


def by_cost(packs: np.ndarray, costs: np.ndarray, *, world_size: int, accumulation: int, batch_size: int) -> np.ndarray:
    """The packs laid out so that ranks have even costs, int64 [world_size, accumulation, batch_size].

    Packs are sorted by cost and cut into micro-batches, so that those of one micro-batch cost alike on every rank; in
    each, the costliest pack that is left goes to the rank with the least so far that has room (the greedy rule of
    Graham, 1969). Swaps inside a micro-batch then take cost off the rank that has most. Padding costs nothing. Where
    costs are equal, the order of ``packs`` decides; a rank's packs of one micro-batch are in that order too.

    Args:
        packs: of one step, int64 [packs]; costs: theirs, int64 [packs].

    >>> layout = by_cost(np.arange(4), np.array([9, 1, 8, 2]), world_size=2, accumulation=2, batch_size=1)
    >>> layout.tolist()
    [[[0], [1]], [[2], [3]]]
    """
    num_slots = world_size * accumulation * batch_size
    sorted_slots = np.full(num_slots, PADDING, dtype=np.int64)  # positions in packs, the costliest first
    sorted_slots[: len(packs)] = np.argsort(-costs, kind="stable")
    # The last entry is the cost of padding, at position -1.
    cost_of = [*costs.tolist(), 0]
    rows: list[list[list[int]]] = [[[] for _ in range(accumulation)] for _ in range(world_size)]
    totals = [0] * world_size
    for micro_batch, chunk in enumerate(sorted_slots.reshape(accumulation, -1).tolist()):
        with_room = [(total, rank) for rank, total in enumerate(totals)]
        heapq.heapify(with_room)
        for position in chunk:
            total, rank = heapq.heappop(with_room)
            row = rows[rank][micro_batch]
            row.append(position)
            totals[rank] = total + cost_of[position]
            if len(row) < batch_size:
                heapq.heappush(with_room, (totals[rank], rank))
    placed = np.array(rows, dtype=np.int64).reshape(world_size, accumulation, batch_size)
    _swap(placed, np.array(cost_of, dtype=np.int64))
    placed = np.where(placed == PADDING, num_slots, placed)  # padding last
    placed.sort(axis=2)
    return np.append(packs, PADDING)[np.minimum(placed, len(packs))]


def _swap(placed: np.ndarray, cost_of: np.ndarray) -> None:
    """Swaps packs of one micro-batch, in place, while that takes cost off the rank that has most.

    Each swap is the one that leaves the least on the costlier of its two ranks. It lowers the sum of the squares of the
    totals, so this ends; the limit holds the time down where gains get small.
    """
    world_size = len(placed)
    if world_size == 1:
        return
    costs = cost_of[placed]
    totals = costs.sum(axis=(1, 2))
    for _ in range(2 * world_size):
        top = int(totals.argmax())
        # [rank, micro-batch, i, j]: what top gives away where its pack i changes places with pack j of the rank.
        given = costs[top][None, :, :, None] - costs[:, :, None, :]
        here = totals[:, None, None, None]
        left = np.maximum(totals[top] - given, here + given)
        best = int(left.argmin())
        if left.flat[best] >= totals[top]:
            return
        rank, micro_batch, mine, other = np.unravel_index(best, left.shape)
        one, two = (top, micro_batch, mine), (rank, micro_batch, other)
        placed[one], placed[two] = placed[two], placed[one]
        costs[one], costs[two] = costs[two], costs[one]
        totals[top] -= given.flat[best]
        totals[rank] += given.flat[best]


def even_steps(packs: np.ndarray, costs: np.ndarray, *, global_batch_size: int, seed: int) -> np.ndarray:
    """The packs in an order whose steps of ``global_batch_size`` packs have even costs, int64 [packs].

    A stratified draw: the packs, sorted by cost, are cut into as many strata as a step has packs, and each step gets
    one pack of each, drawn by the hash of ``seed``. The last step, where it is a shorter one, gets its packs in the
    same way, from strata of its own. Inside a step packs stand in hashed order.

    Args:
        packs: int64 [packs]; costs: theirs, int64 [packs].

    >>> order = even_steps(np.arange(4), np.array([1, 100, 2, 101]), global_batch_size=2, seed=0)
    >>> sorted(sorted(step) for step in order.reshape(2, 2).tolist()) in ([[0, 1], [2, 3]], [[0, 3], [1, 2]])
    True
    """
    # The sort is over hashed order, so that packs of one cost are drawn from by chance too.
    shuffled = hashed_permutation(len(packs), derive(seed, "ties"))
    ranked = shuffled[np.argsort(costs[shuffled], kind="stable")]
    num_steps, num_last = divmod(len(packs), global_batch_size)
    last = np.zeros(len(packs), dtype=bool)
    if num_last:
        edges = np.arange(num_last + 1, dtype=np.int64) * len(packs) // num_last
        draws = hashed_permutation(len(packs), derive(seed, "last step"))
        last[[start + int(draws[start:stop].argmin()) for start, stop in pairwise(edges.tolist())]] = True
    strata = ranked[~last].reshape(global_batch_size, num_steps)
    steps = _shuffled_rows(_shuffled_rows(strata, derive(seed, "strata")).T, derive(seed, "inside"))
    return packs[np.concatenate([steps.reshape(-1), ranked[last]])]


def _shuffled_rows(rows: np.ndarray, seed: int) -> np.ndarray:
    """Each row in an order of its own."""
    keys = hashed_permutation(rows.size, seed).reshape(rows.shape)
    return np.take_along_axis(rows, np.argsort(keys, axis=1, kind="stable"), axis=1)
