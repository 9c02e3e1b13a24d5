"""Where a run stands in its data: a small plain dict that holds on any number of ranks and workers."""

from collections.abc import Mapping
from typing import Any

from torchpipe.errors import CheckpointError
from torchpipe.loading.epoch_steps import EpochSteps
from torchpipe.loading.shard_steps import ShardSteps
from torchpipe.loading.steps import GlobalSteps

STATE_VERSION = 1


def position_state(steps: GlobalSteps | ShardSteps | EpochSteps, *, epoch: int, step: int) -> dict[str, Any]:
    """The state of a run that has done ``step`` steps of ``epoch``: JSON values.

    It holds ``version``, ``epoch``, ``step``, and what decides the steps: ``plan``, ``global_batch_size``, ``seed``,
    ``shuffle`` and ``balance``. It does not hold how many ranks or workers there were, which may change. Where packs
    are finished while the run trains, ``step`` may be as many as the epoch turns out to have, and ``shards`` and
    ``samples`` tell what was read.

    >>> state = position_state(GlobalSteps(num_packs=6, global_batch_size=2), epoch=0, step=2)
    >>> state["step"], state["plan"], state["global_batch_size"]
    (2, '6 packs', 2)
    >>> position_state(GlobalSteps(num_packs=6, global_batch_size=2), epoch=0, step=3)["epoch"]
    1
    """
    if steps.is_ready(epoch, step) and not steps.has(epoch, step):
        epoch, step = epoch + 1, 0
    place = {"version": STATE_VERSION, "epoch": epoch, "step": step}
    return {**place, **steps.identity(), **steps.read_before(epoch, step)}


def position_of(state: Mapping[str, Any], steps: GlobalSteps | ShardSteps | EpochSteps) -> tuple[int, int]:
    """The epoch and the step of it at which a run goes on.

    Raises:
        CheckpointError: the state is of another version, or was made with other packs, another number of them a step,
            another seed or order, or has read other samples; every field that differs is named.

    >>> steps = GlobalSteps(num_packs=6, global_batch_size=2)
    >>> position_of(position_state(steps, epoch=1, step=2), steps)
    (1, 2)
    """
    version = state.get("version") if isinstance(state, Mapping) else None
    if version != STATE_VERSION:
        raise CheckpointError(f"The loader's state has version {version!r}, and this one reads {STATE_VERSION}.")
    changed = [
        f"{name} was {state.get(name)!r} and is {now!r}"
        for name, now in steps.identity().items()
        if state.get(name) != now
    ]
    if changed:
        raise CheckpointError(
            f"The loader's state belongs to another run: {'; '.join(changed)}. Put these back to resume, or start anew."
        )
    for name in ("epoch", "step"):
        value = state.get(name)
        if type(value) is not int or value < 0:
            raise CheckpointError(f"The loader's state has {name} {value!r}. It is a whole number from 0 on.")
    epoch, step = state["epoch"], state["step"]
    # A state of a run that did not know how long the epoch is may stand just behind its last step.
    if not steps.has(epoch, step if "shards" not in state else max(0, step - 1)):
        raise CheckpointError(f"The loader's state has step {step}. It is a whole number from 0 on below {len(steps)}.")
    if read := {k: v for k, v in steps.read_before(epoch, step).items() if v != state.get(k)}:
        raise CheckpointError(
            f"The loader's state belongs to another run: of the rows that it was trained on, which fill the first "
            f"{state.get('shards')} shards, some have changed, or how they are packed: {read}"
        )
    return epoch, step
