"""Learning rates that change from step to step."""

import math
from functools import partial

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from torchpipe.errors import ConfigError


def get_cosine_schedule_with_warmup(
    optimizer: Optimizer,
    num_warmup_steps: int,
    num_training_steps: int,
    num_cycles: float = 0.5,
    last_epoch: int = -1,
) -> LambdaLR:
    """A schedule that raises the learning rate from 0 to the optimizer's own, and lowers it along a cosine.

    It is stepped once an optimizer step, after it. While it warms up, step k (from 0 on) has ``k / num_warmup_steps``
    of the optimizer's rate; then ``(1 + cos(2 pi num_cycles p)) / 2`` of it, where p is the part of the steps after the
    warmup that is done.

    Args:
        optimizer: whose learning rates it sets.
        num_warmup_steps: steps of the rise; 0 starts at the full rate.
        num_training_steps: all steps, those of the warmup included.
        num_cycles: waves of the cosine. 0.5, half a wave, ends at 0.
        last_epoch: the steps that were done before, less 1. A run that goes on gives the schedule its state instead.

    Raises:
        ConfigError: a number of steps is below 0, or none.

    >>> import torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.4)
    >>> schedule = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=2, num_training_steps=4)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(get_lr(optimizer), 3))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.0, 0.2, 0.4, 0.2, 0.0]
    """
    for name, value in (("num_warmup_steps", num_warmup_steps), ("num_training_steps", num_training_steps)):
        if not isinstance(value, int | float) or not value >= 0:
            raise ConfigError(f"{name} is {value!r}. Give 0 or more.")
    factor = partial(
        _cosine_with_warmup,
        num_warmup_steps=num_warmup_steps,
        num_training_steps=num_training_steps,
        num_cycles=num_cycles,
    )
    return LambdaLR(optimizer, factor, last_epoch)


def steps_of_schedule(num_steps: int | None) -> int:
    """The steps that a schedule is made for.

    Raises:
        ConfigError: they are not known beforehand.
    """
    if num_steps is None:
        raise ConfigError(
            "lr_scheduler needs to know the number of steps, and the rows are tokenised while they are trained on. "
            "Leave start: by_shard out of the data set, or set lr_scheduler=null."
        )
    return num_steps


def _cosine_with_warmup(step: int, *, num_warmup_steps: int, num_training_steps: int, num_cycles: float) -> float:
    """What the optimizer's rate is multiplied by at a step."""
    if step < num_warmup_steps:
        return step / max(1, num_warmup_steps)
    done = (step - num_warmup_steps) / max(1, num_training_steps - num_warmup_steps)
    return max(0.0, 0.5 * (1.0 + math.cos(math.pi * num_cycles * 2.0 * done)))


def get_lr(optimizer: Optimizer) -> float:
    """The learning rate that all parameter groups of an optimizer share.

    Raises:
        ConfigError: they differ.
    """
    rates = dict.fromkeys(group["lr"] for group in optimizer.param_groups)
    if len(rates) != 1:
        listed = ", ".join(map(str, rates))
        raise ConfigError(
            f"The optimizer's parameter groups have the learning rates {listed}. One number can't stand for them: read "
            "optimizer.param_groups."
        )
    return next(iter(rates))
