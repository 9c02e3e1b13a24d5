"""Text samples into one padded batch."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch

from torchpipe._suggest import did_you_mean, listed
from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.collate.media import collate_media
from torchpipe.data.loss_weights import weights_or_ones
from torchpipe.data.padding import as_direction, longest, pad_rows
from torchpipe.errors import ColumnError, ConfigError, DataError

_MADE_FOR = {
    "chosen_input_ids": "padded_collate_dpo",
    "desirable": "padded_collate_kto",
    "columns": "padded_collate_prompts",
}
"""A key that tells items of another data set, and what makes batches of them."""
_WHAT = {"loss_weights": "weight for each label"}


def column(batch: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    """The value of ``key`` in every sample.

    Raises:
        ColumnError: a sample has no such key.
    """
    try:
        return [sample[key] for sample in batch]
    except KeyError:
        index = next(i for i, sample in enumerate(batch) if key not in sample)
        has, near = listed(batch[index]), did_you_mean(key, batch[index])
        made_for = next((name for one, name in _MADE_FOR.items() if one in batch[index]), None)
        if made_for and (key == "tokens" or "tokens" in batch[index]):
            near = f" Batches of these are made by torchpipe.data.{made_for}."
        raise ColumnError(f"Sample {index} of the batch has no {key!r}; it has {has}.{near}") from None


def check_batch(batch: Sequence[Mapping[str, Any]]) -> None:
    """None, when there are samples.

    Raises:
        DataError: the batch is empty, no list, or holds something else than samples.
    """
    if not isinstance(batch, Sequence) or isinstance(batch, str):
        raise DataError(f"A batch is a list of samples, and this is a {type(batch).__name__}.")
    if len(batch) == 0:
        raise DataError("The batch is empty. A collate function needs at least one sample.")
    for index, sample in enumerate(batch):
        if not isinstance(sample, Mapping):
            raise DataError(f"Sample {index} of the batch is a {type(sample).__name__}; a sample is a dict.")


def check_lengths(batch: Sequence[Mapping[str, Any]], tokens: str, labels: str) -> None:
    """None, when every sample has a label for every token.

    Args:
        batch: samples that have both keys.
        tokens: the key of the tokens.
        labels: the key of their labels.

    Raises:
        DataError: a sample has more of one than of the other.
    """
    for index, sample in enumerate(batch):
        if len(sample[tokens]) != len(sample[labels]):
            raise DataError(
                f"Sample {index} of the batch has {len(sample[tokens])} in {tokens!r} and {len(sample[labels])} in "
                f"{labels!r}. There has to be one {_WHAT.get(labels, 'label for each token')}."
            )


def collate_loss_weights(
    batch: Sequence[Mapping[str, Any]], *, width: int = 0, multiple: int = 1
) -> dict[str, torch.Tensor]:
    """``{"loss_weights": float32 [b, w]}`` where a sample has them, an empty dict where none has.

    A sample without has those that its labels stand for: 1 where they are trained. Padding weighs 0.

    Args:
        batch: samples with ``labels``.
        width: pad at least to this many.
        multiple: round the width up to a multiple of this.

    Raises:
        DataError: a sample has more weights than labels, or fewer, or something other than numbers.
    """
    if all(sample.get("loss_weights") is None for sample in batch):
        return {}
    rows = [
        torch.as_tensor(weights_or_ones(sample["labels"], sample.get("loss_weights")), dtype=torch.float32)
        for sample in batch
    ]
    filled = [{"labels": sample["labels"], "loss_weights": row} for sample, row in zip(batch, rows, strict=True)]
    check_lengths(filled, "labels", "loss_weights")
    return {"loss_weights": pad_rows(rows, value=0.0, width=width, multiple=multiple, dtype=torch.float32)}


def padded_collate(
    batch: list[dict[str, Any]],
    *,
    pad_direction: Literal["left", "right"] | str,
    keys_to_pad: list[str],
    padding_idx: int | dict[str, int],
    pad_to_multiple_of: int = 1,
    stack_on_new_dim: bool = False,
) -> dict[str, Any]:
    """The batch as a dict of tensors: ``keys_to_pad`` padded to [b, w], every other key stacked as it is.

    Each padded key has the width of its own longest row; the samples are not changed. ``encoder_input``, where samples
    have it, is a dict whose tensors are joined key by key (see :func:`~torchpipe.data.collate.media.collate_media`).

    Args:
        batch: samples with the same keys.
        pad_direction: the side that is filled.
        keys_to_pad: the keys whose rows differ in length.
        padding_idx: one value for all of these keys, or one for each.
        pad_to_multiple_of: round the widths up to a multiple of this; only when padding on the right.
        stack_on_new_dim: about media: True stacks their tensors, False joins them along their first axis.

    Raises:
        ConfigError: an argument is not one of these, or they don't go together.
        ColumnError: a sample lacks a key that another one has, or one to pad.
        DataError: the batch is empty, or holds values that don't fit in one tensor.

    >>> padded_collate([{"tokens": [1, 2], "id": 7}, {"tokens": [3], "id": 8}], pad_direction="left",
    ...                keys_to_pad=["tokens"], padding_idx=0)
    {'tokens': tensor([[1, 2],
            [0, 3]]), 'id': tensor([7, 8])}
    """
    direction = as_direction(pad_direction, pad_to_multiple_of)
    if not isinstance(keys_to_pad, list) or not keys_to_pad or not all(isinstance(key, str) for key in keys_to_pad):
        raise ConfigError(f"keys_to_pad={keys_to_pad!r} must be a list with at least one key, like ['tokens'].")
    values = padding_idx if isinstance(padding_idx, dict) else dict.fromkeys(keys_to_pad, padding_idx)
    if set(values) != set(keys_to_pad):
        raise ConfigError(
            f"padding_idx has values for {listed(values)}, but keys_to_pad names {listed(keys_to_pad)}. "
            "Give one value for each of these keys, or one integer for all."
        )
    check_batch(batch)
    # A key that only a later sample has is asked of every sample too, so it is refused, not dropped.
    keys = dict.fromkeys([*keys_to_pad, *(key for sample in batch for key in sample if key != "encoder_input")])
    out = {
        key: pad_rows(column(batch, key), value=values[key], multiple=pad_to_multiple_of, direction=direction)
        if key in values
        else _stacked(key, column(batch, key))
        for key in keys
    }
    return {**out, **collate_media(batch, stack_on_new_dim=stack_on_new_dim)}


def _stacked(key: str, rows: list[Any]) -> torch.Tensor:
    try:
        return torch.stack([torch.as_tensor(row) for row in rows])
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"The values of {key!r} don't fit in one tensor: {error} "
            f"Add {key!r} to keys_to_pad if they differ in length, or leave it out of the samples."
        ) from error


def padded_collate_sft(
    batch: list[dict[str, Any]],
    padding_idx: int = 0,
    ignore_idx: int = IGNORE_INDEX,
    pad_to_multiple_of: int = 1,
    stack_on_new_dim: bool = False,
    cp_degree: int = 1,
) -> dict[str, Any]:
    """The batch as ``{"tokens": int64 [b, w], "labels": int64 [b, w]}``, padded on the right.

    Where samples have ``encoder_input``, the batch has it too, its tensors joined key by key (see
    :func:`~torchpipe.data.collate.media.collate_media`). Where a sample has ``loss_weights``, the batch has them too:
    float32 [b, w], 0 in the padding; they are for the loss. Other keys of a sample, such as its mask, are left out: the
    model is called with what is left of the batch.

    Args:
        batch: samples with ``tokens`` and ``labels``, as many: lists, arrays or tensors of integers.
        padding_idx: what fills ``tokens``.
        ignore_idx: what fills ``labels``.
        pad_to_multiple_of: round w up to a multiple of this; a width that is one already stays.
        stack_on_new_dim: about media: True stacks their tensors, False joins them along their first axis.
        cp_degree: over how many devices a sequence is split. Above 1, the batch also has ``input_pos`` int64 [b, w],
            because a part of a sequence does not know where it starts.

    Raises:
        DataError: the batch is empty, a sample has more tokens than labels or fewer, or there is something other than
            integers in one axis.
        ColumnError: a sample has no ``tokens`` or no ``labels``.
        ConfigError: ``pad_to_multiple_of`` or ``cp_degree`` is below 1.

    >>> padded_collate_sft([{"tokens": [1, 2, 3], "labels": [2, 3, -100]}, {"tokens": [4], "labels": [-100]}])
    {'tokens': tensor([[1, 2, 3],
            [4, 0, 0]]), 'labels': tensor([[   2,    3, -100],
            [-100, -100, -100]])}
    """
    if not isinstance(cp_degree, int) or cp_degree < 1:
        raise ConfigError(f"cp_degree={cp_degree!r} must be 1 or more; 1 keeps a sequence on one device.")
    check_batch(batch)
    tokens, labels = column(batch, "tokens"), column(batch, "labels")
    width = longest([*tokens, *labels])
    check_lengths(batch, "tokens", "labels")
    out: dict[str, Any] = {
        "tokens": pad_rows(tokens, value=padding_idx, width=width, multiple=pad_to_multiple_of, dtype=torch.int64),
        "labels": pad_rows(labels, value=ignore_idx, width=width, multiple=pad_to_multiple_of, dtype=torch.int64),
    }
    if out["tokens"].ndim != 2 or out["labels"].ndim != 2:
        shapes = " and ".join(f"{key} {list(out[key].shape[2:])}" for key in ("tokens", "labels"))
        raise DataError(f"Tokens and labels of a sample have one axis each; these have more beyond it: {shapes}.")
    out |= collate_loss_weights(batch, width=width, multiple=pad_to_multiple_of)
    if cp_degree > 1:
        out["input_pos"] = torch.arange(out["tokens"].shape[1]).repeat(len(batch), 1)
    return {**out, **collate_media(batch, stack_on_new_dim=stack_on_new_dim)}
