"""Strategies and lengths of packs side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np

from torchpipe.audit.plan_cuts import Cuts, cuts_at, own_max_seq_len
from torchpipe.audit.plan_parts import Part
from torchpipe.data.packing import LLAMA3_8B_COST, CostModel, PackPlan, plan_packs
from torchpipe.datasets import PackedDataset
from torchpipe.errors import ConfigError
from torchpipe.loading import Balance, GlobalSteps, measure_spread

STRATEGIES = ("next_fit", "concat_then_split", "first_fit", "best_fit_decreasing")
"""What is compared unless told otherwise."""

MAX_STEPS = 200
"""Steps of an epoch whose spread over ranks is measured, for each line of the table."""


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """One strategy at one length.

    Attributes:
        max_seq_len: tokens of a pack, and the most of a sample.
        strategy: how packs are filled.
        is_of_config: whether these are the packs of the config itself.
        is_exact: whether a run has just these packs; else rows are cut otherwise than their lengths tell.
        num_cut, num_tokens_cut, num_split, num_left_out: what becomes of longer rows, see
            :class:`~torchpipe.audit.plan_cuts.Cuts`.
        num_refused: rows with which a run would stop. Then, and where a data set has no row left, all that follows is
            None.
        num_packs: of an epoch; fill: the part of them that holds tokens; documents_a_pack: samples, and parts of them.
        num_steps: of an epoch.
        worst: for each way to balance, the costliest rank of a step over the mean, in the worst step. None where it
            is not possible.
    """

    max_seq_len: int
    strategy: str
    is_of_config: bool
    is_exact: bool
    num_cut: int
    num_tokens_cut: int
    num_split: int
    num_left_out: int
    num_refused: int
    num_packs: int | None = None
    fill: float | None = None
    documents_a_pack: float | None = None
    num_steps: int | None = None
    worst: dict[str, float | None] | None = None


def compare(
    parts: Sequence[Part],
    *,
    strategies: Sequence[str] | None,
    max_seq_lens: Sequence[int] | None,
    steps_of: Callable[[np.ndarray], GlobalSteps],
    cost: CostModel,
    world_size: int,
    batch_size: int,
) -> list[Alternative]:
    """Every strategy at every length. Each data set is packed by itself, as in a run.

    Args:
        parts: of one section.
        strategies: None: :data:`STRATEGIES` and the config's own.
        max_seq_lens: None: the config's own.
        steps_of: the global steps of packs, given the costs that balance them.
        cost: of documents, for the spread over ranks.
        world_size: ranks; batch_size: packs of a micro-batch.

    Raises:
        ConfigError: a strategy is unknown, or no length is known.
    """
    own = {own_max_seq_len(part) for part in parts}
    own_strategies = [part.dataset.strategy for part in parts if isinstance(part.dataset, PackedDataset)]
    if strategies is None:
        strategies = list(dict.fromkeys([*STRATEGIES, *(one for one in own_strategies if isinstance(one, str))]))
    if max_seq_lens is None:
        if len(own) > 1 or None in own:
            raise ConfigError(
                "Packs are not compared: the data sets have no one max_seq_len. Give one, or several (--max-seq-len)."
            )
        max_seq_lens = sorted(length for length in own if length is not None)
    found = []
    for max_seq_len in max_seq_lens:
        cuts = [cuts_at(part, max_seq_len) for part in parts]
        for strategy in strategies:
            is_own = own == {max_seq_len} and bool(own_strategies) and all(one == strategy for one in own_strategies)
            line = _line(cuts, max_seq_len, strategy, is_own)
            if line.num_refused or not all(len(one.lengths) for one in cuts):
                found.append(line)
                continue
            plans = [_plan(part, one, max_seq_len, strategy) for part, one in zip(parts, cuts, strict=True)]
            num_packs = sum(map(len, plans))
            layout_costs, costs = (
                np.concatenate([plan.costs(model) for plan in plans]) for model in (LLAMA3_8B_COST, cost)
            )
            steps = steps_of(layout_costs)
            found.append(
                replace(
                    line,
                    num_packs=num_packs,
                    fill=sum(int(plan.num_tokens.sum()) for plan in plans) / (num_packs * max_seq_len),
                    documents_a_pack=sum(len(plan.sample) for plan in plans) / num_packs,
                    num_steps=len(steps),
                    worst=_worst(steps, costs, world_size=world_size, batch_size=batch_size),
                )
            )
    return found


def _line(cuts: Sequence[Cuts], max_seq_len: int, strategy: str, is_of_config: bool) -> Alternative:
    counts = ("num_cut", "num_tokens_cut", "num_split", "num_left_out", "num_refused")
    summed: dict[str, Any] = {name: sum(getattr(one, name) for one in cuts) for name in counts}
    return Alternative(
        max_seq_len=max_seq_len,
        strategy=strategy,
        is_of_config=is_of_config,
        is_exact=all(one.is_exact for one in cuts),
        **summed,
    )


def _plan(part: Part, cuts: Cuts, max_seq_len: int, strategy: str) -> PackPlan:
    dataset: Any = part.dataset
    if isinstance(dataset, PackedDataset) and (dataset.max_seq_len, dataset.strategy) == (max_seq_len, strategy):
        return dataset.plan
    limit = dataset.max_documents if isinstance(dataset, PackedDataset) else None
    return plan_packs(cuts.lengths, max_seq_len, strategy=strategy, max_documents=limit)


def _worst(steps: GlobalSteps, costs: np.ndarray, *, world_size: int, batch_size: int) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for balance in get_args(Balance):
        if balance == "steps" and not steps.shuffle:
            found[balance] = None
            continue
        spread = measure_spread(
            replace(steps, balance=balance),
            world_size=world_size,
            batch_size=batch_size,
            costs=costs,
            max_steps=MAX_STEPS,
        )
        found[balance] = spread.worst
    return found
