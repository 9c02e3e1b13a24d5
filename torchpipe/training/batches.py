"""A batch for a model: how it is made of samples, moved, weighed, and what its loss is."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.collate.fixed_widths import FixedWidths
from torchpipe.data.collate.packed import padded_collate_packed
from torchpipe.errors import ConfigError


def collater(
    sample: Mapping[str, Any],
    model: Any,
    collate_fn: Callable[..., Any],
    *,
    padding_idx: int,
    widest: int | None = None,
) -> Callable[[list[Any]], Any]:
    """The function that makes batches of samples like ``sample`` for ``model``.

    Packed samples (they have ``seq_lens``) go to ``padded_collate_packed``, with the kind of mask that the model names
    in ``packed_mask`` (dense where it names none). Others go to ``collate_fn``, which is given ``padding_idx`` and
    ``ignore_idx`` where it takes them.

    Args:
        sample: one of the samples.
        widest: tokens of the longest sample: batches that are not packed then have one of a few widths, see
            :class:`~torchpipe.data.FixedWidths`. None: each is as wide as its longest sample.

    Raises:
        ConfigError: ``widest`` is given, and ``collate_fn`` can't pad to a width.
    """
    if "seq_lens" in sample:
        return partial(padded_collate_packed, mask=getattr(model, "packed_mask", "dense"))
    parameters = inspect.signature(collate_fn).parameters
    known = {"padding_idx": padding_idx, "ignore_idx": IGNORE_INDEX}
    collate = partial(collate_fn, **{name: value for name, value in known.items() if name in parameters})
    return collate if widest is None else FixedWidths(collate, max_seq_len=widest)


def to_device(batch: Mapping[str, Any], device: torch.device) -> dict[str, Any]:
    """The batch with everything that has a ``to`` moved to ``device``, inside dicts, lists and tuples too.

    The batch and what it holds stay as they are. Numbers, strings and other things without a ``to`` are kept.

    >>> batch = {"tokens": torch.ones(2), "encoder_input": {"images": [torch.ones(3)]}}
    >>> to_device(batch, torch.device("meta"))["encoder_input"]["images"][0].device
    device(type='meta')
    """
    return {key: _moved(value, device) for key, value in batch.items()}


def _moved(value: Any, device: torch.device) -> Any:
    if hasattr(value, "to"):
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: _moved(inner, device) for key, inner in value.items()}
    if isinstance(value, list):
        return [_moved(inner, device) for inner in value]
    if isinstance(value, tuple):
        moved = [_moved(inner, device) for inner in value]
        return type(value)(*moved) if hasattr(value, "_fields") else tuple(moved)
    return value


def trained_weight(batch: Mapping[str, Any]) -> float:
    """How much the trained positions of a batch weigh together: without ``loss_weights``, their number."""
    weights = batch.get("loss_weights")
    if weights is None:
        return num_trained(batch)
    return float(weights[batch["labels"] != IGNORE_INDEX].sum(dtype=torch.float64))


def step_totals(step: Any, sum_over_ranks: Callable[[float, float], Iterable[float]]) -> tuple[int, float]:
    """The trained positions of a whole step, over all micro-batches and ranks, and their weight together.

    Args:
        step: see :class:`torchpipe.loading.Step`. Where it does not know the two beforehand, every rank counts its
            own micro-batches.
        sum_over_ranks: :meth:`~torchpipe.training.Ranks.sum`.
    """
    if step.trained_tokens is not None and step.trained_weight is not None:
        return step.trained_tokens, step.trained_weight
    trained, weight = sum_over_ranks(
        sum(map(num_trained, step.micro_batches)), sum(map(trained_weight, step.micro_batches))
    )
    return int(trained), weight


def batch_loss(
    model: Callable[..., Any], loss_fn: Callable[..., torch.Tensor], batch: Mapping[str, Any], device: torch.device
) -> torch.Tensor:
    """The mean loss of a batch: ``loss_fn`` of the model's outputs, the labels and, where it has them, loss weights.

    Raises:
        ConfigError: the batch has loss weights, and ``loss_fn`` takes none.
    """
    inputs = to_device(batch, device)
    labels, weights = inputs.pop("labels"), inputs.pop("loss_weights", None)
    if weights is None:
        return loss_fn(model(**inputs), labels)
    if not takes_loss_weights(loss_fn):
        name = getattr(loss_fn, "__name__", type(loss_fn).__name__)
        raise ConfigError(
            f"The samples have loss weights, and the loss {name} takes no loss_weights. Use "
            "torchpipe.modules.losses.LinearCrossEntropyLoss, or leave weights out of the data."
        )
    return loss_fn(model(**inputs), labels, loss_weights=weights)


def takes_loss_weights(loss_fn: Callable[..., Any]) -> bool:
    """Whether a loss has an argument ``loss_weights``."""
    parameters = inspect.signature(getattr(loss_fn, "forward", loss_fn)).parameters
    return "loss_weights" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def num_trained(batch: Mapping[str, Any]) -> int:
    """How many positions of a batch are trained on."""
    return int((batch["labels"] != IGNORE_INDEX).sum())
