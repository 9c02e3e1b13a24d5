"""The media of samples, joined key by key: what ``encoder_input`` holds, at any depth."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torchpipe.errors import DataError


def collate_media(batch: Sequence[Mapping[str, Any]], *, stack_on_new_dim: bool = False) -> dict[str, Any]:
    """``{"encoder_input": ...}`` with the media of all samples; an empty dict when none has any.

    ``encoder_input`` is a dict, perhaps of dicts, of tensors or lists of tensors. Under each key, the tensors of all
    samples, in order, become one. Samples without media add nothing, and a key without any tensor is left out.

    Args:
        batch: samples; None and empty lists are no media.
        stack_on_new_dim: True stacks the tensors on a new first axis; False joins them along their first one.

    Raises:
        DataError: a key holds something else, or tensors whose shapes don't fit.

    >>> batch = [{"encoder_input": {"a": torch.ones(2, 3), "b": [torch.ones(1), torch.ones(2)]}},
    ...          {"encoder_input": {"a": torch.ones(1, 3), "b": []}}, {}]
    >>> {key: list(tensor.shape) for key, tensor in collate_media(batch)["encoder_input"].items()}
    {'a': [3, 3], 'b': [3]}
    """
    joined = _joined([sample.get("encoder_input") for sample in batch], "encoder_input", stack_on_new_dim)
    return {} if joined is None else {"encoder_input": joined}


def refuse_media(batch: Sequence[Mapping[str, Any]]) -> None:
    """None, when all samples are text.

    Raises:
        DataError: a sample has ``encoder_input``.
    """
    for index, sample in enumerate(batch):
        if sample.get("encoder_input") is not None:
            raise DataError(
                f"Sample {index} of the batch has media in 'encoder_input', and this function batches text alone. "
                "Give the data set a text tokenizer, or drop the rows with media in a filter_fn."
            )


def _joined(values: Sequence[Any], where: str, stack_on_new_dim: bool) -> Any:
    given = [value for value in values if value is not None]
    if not given:
        return None
    if all(isinstance(value, Mapping) for value in given):
        keys = dict.fromkeys(key for value in given for key in value)
        parts = {
            key: _joined([value.get(key) for value in given], f"{where}[{key!r}]", stack_on_new_dim) for key in keys
        }
        return {key: part for key, part in parts.items() if part is not None} or None
    if all(isinstance(value, (list, tuple)) for value in given):
        return _joined([item for value in given for item in value], where, stack_on_new_dim)
    if not all(isinstance(value, torch.Tensor) for value in given):
        kinds = ", ".join(sorted({type(value).__name__ for value in given}))
        raise DataError(
            f"{where} holds {kinds} in this batch. It must be tensors, lists of tensors or dicts of them, the same in "
            "every sample."
        )
    try:
        return torch.stack(given) if stack_on_new_dim else torch.cat(given)
    except (RuntimeError, TypeError) as error:
        shapes = ", ".join(str(list(value.shape)) for value in given)
        how = (
            "equal, to be stacked on a new axis"
            if stack_on_new_dim
            else "equal beyond the first axis, to be joined along it"
        )
        raise DataError(f"The shapes of {where} are {shapes}. They have to be {how}.") from error
