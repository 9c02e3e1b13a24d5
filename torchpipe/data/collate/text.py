"""Text samples into one padded batch."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch

from torchpipe._suggest import did_you_mean, listed
from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.padding import longest, pad_rows
from torchpipe.errors import ColumnError, ConfigError, DataError

_DIRECTIONS = ("left", "right")


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
        raise ColumnError(f"Sample {index} of the batch has no {key!r}; it has {has}.{near}") from None


def check_batch(batch: Sequence[Mapping[str, Any]]) -> None:
    """None, when there are samples and all of them are text.

    Raises:
        DataError: the batch is empty, or a sample has media in ``encoder_input``.
    """
    if len(batch) == 0:
        raise DataError("The batch is empty. A collate function needs at least one sample.")
    for index, sample in enumerate(batch):
        if sample.get("encoder_input") is not None:
            raise DataError(
                f"Sample {index} of the batch has media in 'encoder_input', and this function batches text alone. "
                "Give the data set a text tokenizer, or drop the rows with media in a filter_fn."
            )


def _warn_of_stacking(stack_on_new_dim: bool) -> None:
    if stack_on_new_dim:
        warnings.warn("stack_on_new_dim=True has no effect: it is about media, and this batch is text.", stacklevel=3)


def padded_collate(
    batch: list[dict[str, Any]],
    *,
    pad_direction: Literal["left", "right"] | str,
    keys_to_pad: list[str],
    padding_idx: int | dict[str, int],
    pad_to_multiple_of: int = 1,
    stack_on_new_dim: bool = False,
) -> dict[str, torch.Tensor]:
    """The batch as a dict of tensors: ``keys_to_pad`` padded to [b, w], every other key stacked as it is.

    Each padded key has the width of its own longest row; the samples are not changed.

    Args:
        batch: samples with the same keys.
        pad_direction: the side that is filled.
        keys_to_pad: the keys whose rows differ in length.
        padding_idx: one value for all of these keys, or one for each.
        pad_to_multiple_of: round the widths up to a multiple of this; only when padding on the right.
        stack_on_new_dim: about media, so it does nothing here, with a warning.

    Raises:
        ConfigError: an argument is not one of these, or they don't go together.
        ColumnError: a sample lacks a key that another one has, or one to pad.
        DataError: the batch is empty, has media, or holds values that don't fit in one tensor.

    >>> padded_collate([{"tokens": [1, 2], "id": 7}, {"tokens": [3], "id": 8}], pad_direction="left",
    ...                keys_to_pad=["tokens"], padding_idx=0)
    {'tokens': tensor([[1, 2],
            [0, 3]]), 'id': tensor([7, 8])}
    """
    if pad_direction == "right":
        direction = "right"
    elif pad_direction == "left":
        direction = "left"
    else:
        near = did_you_mean(pad_direction, _DIRECTIONS)
        raise ConfigError(f"Unknown pad_direction {pad_direction!r}. It is one of {listed(_DIRECTIONS)}.{near}")
    if direction == "left" and pad_to_multiple_of > 1:
        raise ConfigError(
            f"pad_to_multiple_of={pad_to_multiple_of} pads on the right, so it does not go with pad_direction='left'."
        )
    if not isinstance(keys_to_pad, list) or not keys_to_pad:
        raise ConfigError(f"keys_to_pad={keys_to_pad!r} must be a list with at least one key, like ['tokens'].")
    values = padding_idx if isinstance(padding_idx, dict) else dict.fromkeys(keys_to_pad, padding_idx)
    if set(values) != set(keys_to_pad):
        raise ConfigError(
            f"padding_idx has values for {listed(values)}, but keys_to_pad names {listed(keys_to_pad)}. "
            "Give one value for each of these keys, or one integer for all."
        )
    check_batch(batch)
    _warn_of_stacking(stack_on_new_dim)
    # A key that only a later sample has is asked of every sample too, so it is refused, not dropped.
    keys = dict.fromkeys([*keys_to_pad, *(key for sample in batch for key in sample if key != "encoder_input")])
    return {
        key: pad_rows(column(batch, key), value=values[key], multiple=pad_to_multiple_of, direction=direction)
        if key in values
        else _stacked(key, column(batch, key))
        for key in keys
    }


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
) -> dict[str, torch.Tensor]:
    """The batch as ``{"tokens": int64 [b, w], "labels": int64 [b, w]}``, padded on the right.

    Other keys of a sample, such as its mask, are left out: the model is called with what is left of the batch.

    Args:
        batch: samples with ``tokens`` and ``labels``: lists, arrays or tensors of integers.
        padding_idx: what fills ``tokens``.
        ignore_idx: what fills ``labels``.
        pad_to_multiple_of: round w up to a multiple of this; a width that is one already stays.
        stack_on_new_dim: about media, so it does nothing here, with a warning.
        cp_degree: over how many devices a sequence is split. Above 1, the batch also has ``input_pos`` int64 [b, w],
            because a part of a sequence does not know where it starts.

    Raises:
        DataError: the batch is empty, has media, or holds something other than integers.
        ColumnError: a sample has no ``tokens`` or no ``labels``.
        ConfigError: ``pad_to_multiple_of`` or ``cp_degree`` is below 1.

    >>> padded_collate_sft([{"tokens": [1, 2, 3], "labels": [2, 3, -100]}, {"tokens": [4], "labels": [-100]}])
    {'tokens': tensor([[1, 2, 3],
            [4, 0, 0]]), 'labels': tensor([[   2,    3, -100],
            [-100, -100, -100]])}
    """
    if cp_degree < 1:
        raise ConfigError(f"cp_degree={cp_degree} must be 1 or more; 1 keeps a sequence on one device.")
    check_batch(batch)
    _warn_of_stacking(stack_on_new_dim)
    tokens, labels = column(batch, "tokens"), column(batch, "labels")
    width = longest([*tokens, *labels])
    out = {
        "tokens": pad_rows(tokens, value=padding_idx, width=width, multiple=pad_to_multiple_of, dtype=torch.int64),
        "labels": pad_rows(labels, value=ignore_idx, width=width, multiple=pad_to_multiple_of, dtype=torch.int64),
    }
    if cp_degree > 1:
        out["input_pos"] = torch.arange(out["tokens"].shape[1]).repeat(len(batch), 1)
    return out
