"""A loss that is not a number ends the run, before it spoils the weights."""

import math
from collections.abc import Callable

from torchpipe.errors import NonFiniteLossError


def check_loss(loss: float, *, step: int, rows: Callable[[], str], name: str = "loss") -> float:
    """The loss as it was given, where it is a finite number.

    Args:
        loss: of a micro-batch.
        step: of the run, counted from 1.
        rows: says which rows it was computed from (:func:`torchpipe.datasets.describe_rows`); called for the error
            alone.
        name: what is checked, for the error.

    Raises:
        NonFiniteLossError: it is NaN or infinite.

    >>> check_loss(2.5, step=1, rows=lambda: "row 7")
    2.5
    >>> check_loss(float("nan"), step=3, rows=lambda: "row 7 of chats.json")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    torchpipe.errors.NonFiniteLossError: Step 3: the loss is nan. It was computed from row 7 of chats.json. ...
    """
    if math.isfinite(loss):
        return loss
    raise NonFiniteLossError(
        f"Step {step}: the {name} is {loss}. It was computed from {rows()}. The weights are those of the step before. "
        "torchpipe explain CONFIG --row K shows a row, or the pack of that number. Where all are in order, lower "
        "optimizer.lr, or set clip_grad_norm."
    )
