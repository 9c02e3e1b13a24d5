"""How even the ranks are: the costliest rank of a step over the mean, for each way to balance."""

from dataclasses import dataclass, replace

import numpy as np

from torchpipe._seeds import derive, hashed_permutation
from torchpipe.loading.balance import PADDING, in_order, num_micro_batches
from torchpipe.loading.steps import GlobalSteps


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The costs of an epoch's steps over ranks. 1.0 is even; a step takes as long as its costliest rank.

    Attributes:
        worst: of all steps, the largest ratio of the costliest rank's total to the mean over ranks; mean: the mean
            ratio, each step weighted by its cost, which is by how much the epoch takes longer than an even one.
        worst_micro_batch: the same as ``worst`` over single micro-batches without padding, which matters where ranks
            wait for each other in every micro-batch.
        worst_step: the costliest step over the mean step.
        length_correlation: Pearson's correlation of a step's cost with the mean length of its documents: a balanced
            order must not put long documents into some steps. None where lengths were not given; 0.0 where either is
            the same for all steps.
        num_steps: that were measured.
    """

    worst: float
    mean: float
    worst_micro_batch: float
    worst_step: float
    length_correlation: float | None
    num_steps: int


def measure_spread(
    steps: GlobalSteps,
    *,
    world_size: int,
    batch_size: int,
    epoch: int = 0,
    costs: np.ndarray | None = None,
    num_documents: np.ndarray | None = None,
    num_tokens: np.ndarray | None = None,
    random: bool = False,
    max_steps: int | None = None,
) -> Spread:
    """How evenly the steps of an epoch, but for shorter ones, are spread over ranks.

    Args:
        steps: with ``costs``.
        costs: what is measured, int64 [packs], where that is not what the ranks are balanced by, the steps' own.
        num_documents, num_tokens: of each pack, int64 [packs], without padding.
        random: measure a random assignment of the same steps instead, which the others are compared with.
        max_steps: at most so many steps are measured, evenly over the epoch; None: all.

    >>> steps = GlobalSteps(num_packs=4, global_batch_size=4, costs=np.array([1, 1, 3, 3]), shuffle=False)
    >>> measure_spread(replace(steps, balance="none"), world_size=2, batch_size=1).worst
    1.0
    >>> measure_spread(replace(steps, balance="none"), world_size=2, batch_size=2).worst
    1.5
    >>> measure_spread(steps, world_size=2, batch_size=2).worst
    1.0
    """
    if costs is None:
        costs = steps.costs if steps.costs is not None else np.ones(steps.num_packs, dtype=np.int64)
    cost_of = np.append(costs, 0)
    accumulation = num_micro_batches(steps.global_batch_size, world_size=world_size, batch_size=batch_size)
    ratios, micro_ratios, totals, lengths = [], [], [], []
    every = [steps.packs(epoch, step) for step in range(len(steps))]
    whole = [step for step, packs in enumerate(every) if len(packs) == steps.global_batch_size] or range(len(every))
    if max_steps is not None and len(whole) > max_steps:
        whole = [whole[number * len(whole) // max_steps] for number in range(max_steps)]
    for step in whole:
        packs = every[step]
        if random:
            shuffled = packs[hashed_permutation(len(packs), derive(steps.seed, "random assignment", epoch, step))]
            layout = in_order(shuffled, world_size=world_size, accumulation=accumulation, batch_size=batch_size)
        else:
            layout = steps.layout(epoch, step, world_size=world_size, batch_size=batch_size)
        rank_costs = cost_of[layout].sum(axis=2)  # [world_size, accumulation]
        totals.append(sum(rank_costs.reshape(-1).tolist()))  # of Python's integers, which don't overflow
        ratios.append(int(rank_costs.sum(axis=1).max()) * world_size / max(1, totals[-1]))
        for number in np.flatnonzero((layout != PADDING).all(axis=(0, 2))):
            column = rank_costs[:, number].tolist()
            micro_ratios.append(max(column) * world_size / max(1, sum(column)))
        if num_documents is not None and num_tokens is not None:
            lengths.append(int(num_tokens[packs].sum()) / max(1, int(num_documents[packs].sum())))
    return Spread(
        worst=max(ratios),
        mean=float(np.average(ratios, weights=np.maximum(1, totals))),
        worst_micro_batch=max(micro_ratios, default=1.0),
        worst_step=max(totals) * len(totals) / max(1, sum(totals)),
        length_correlation=_correlation(totals, lengths) if lengths else None,
        num_steps=len(totals),
    )


def compare_balance(
    steps: GlobalSteps,
    *,
    world_size: int,
    batch_size: int,
    num_documents: np.ndarray | None = None,
    num_tokens: np.ndarray | None = None,
) -> dict[str, Spread]:
    """The first epoch's :func:`measure_spread` by name: ``within_step``, ``steps``, ``none`` and ``random``, a chance
    assignment of the packs that ``within_step`` has in a step.

    >>> steps = GlobalSteps(num_packs=64, global_batch_size=16, costs=np.arange(64))
    >>> found = compare_balance(steps, world_size=4, batch_size=1)
    >>> found["steps"].worst <= found["within_step"].worst < found["random"].worst
    True
    """

    def of(balance: str, random: bool = False) -> Spread:
        return measure_spread(
            replace(steps, balance=balance, shuffle=True),  # pyright: ignore[reportArgumentType]
            world_size=world_size,
            batch_size=batch_size,
            num_documents=num_documents,
            num_tokens=num_tokens,
            random=random,
        )

    found = {balance: of(balance) for balance in ("within_step", "steps", "none")}
    return {**found, "random": of("within_step", random=True)}


def _correlation(one: list[int], two: list[float]) -> float:
    a, b = (np.array(values, dtype=np.float64) - np.mean(values) for values in (one, two))
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale else 0.0
