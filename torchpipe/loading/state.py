"""Where a run stands in its data: a small plain dict that holds on any number of ranks and workers."""

from collections.abc import Mapping
from typing import Any

from torchpipe.errors import CheckpointError
from torchpipe.loading.steps import GlobalSteps

STATE_VERSION = 1


def position_state(steps: GlobalSteps, *, epoch: int, step: int) -> dict[str, Any]:
    """The state of a run that has done ``step`` steps of ``epoch``: JSON values.

    It holds ``version``, ``epoch``, ``step``, and what decides the steps: ``plan``, ``global_batch_size``, ``seed``,
    ``shuffle`` and ``balance``. It does not hold how many ranks or workers there were, which may change.

    >>> state = position_state(GlobalSteps(num_packs=6, global_batch_size=2), epoch=0, step=2)
    >>> state["step"], state["plan"], state["global_batch_size"]
    (2, '6 packs', 2)
    >>> position_state(GlobalSteps(num_packs=6, global_batch_size=2), epoch=0, step=3)["epoch"]
    1
    """
    if step == len(steps):
        epoch, step = epoch + 1, 0
    return {"version": STATE_VERSION, "epoch": epoch, "step": step, **steps.identity()}


def position_of(state: Mapping[str, Any], steps: GlobalSteps) -> tuple[int, int]:
    """The epoch and the step of it at which a run goes on.

    Raises:
        CheckpointError: the state is of another version, or was made with other packs, another number of them a step,
            another seed or order; every field that differs is named.

    >>> steps = GlobalSteps(num_packs=6, global_batch_size=2)
    >>> position_of(position_state(steps, epoch=1, step=2), steps)
    (1, 2)
    """
    version = state.get("version")
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
    for name, below in (("epoch", None), ("step", len(steps))):
        value = state.get(name)
        if type(value) is not int or value < 0 or (below is not None and value >= below):
            limit = "" if below is None else f" below {below}"
            raise CheckpointError(f"The loader's state has {name} {value!r}. It is a whole number from 0 on{limit}.")
    return state["epoch"], state["step"]
