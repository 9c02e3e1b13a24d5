"""Padding: rows of different lengths into one tensor. The only place that pads."""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from torchpipe._suggest import did_you_mean, listed
from torchpipe.errors import ConfigError, DataError

Direction = Literal["right", "left"]
Row = Sequence[Any] | np.ndarray | torch.Tensor


def round_up(length: int, multiple: int) -> int:
    """The smallest multiple of ``multiple`` that is not below ``length``; an exact multiple stays as it is.

    Raises:
        ConfigError: ``multiple`` is not a positive integer.

    >>> round_up(5, 4), round_up(8, 4), round_up(0, 4)
    (8, 8, 0)
    """
    if not isinstance(multiple, int) or multiple < 1:
        raise ConfigError(f"pad_to_multiple_of={multiple!r} must be 1 or more; 1 pads to the longest row alone.")
    return -(-length // multiple) * multiple


def as_direction(pad_direction: str, multiple: int) -> Direction:
    """The side that is filled.

    Raises:
        ConfigError: there is no such side, or it does not go with rounding up to a multiple.
    """
    if pad_direction not in ("left", "right"):
        sides = get_args(Direction)
        near = did_you_mean(pad_direction, sides)
        raise ConfigError(f"Unknown pad_direction {pad_direction!r}. It is one of {listed(sides)}.{near}")
    if pad_direction == "left" and multiple > 1:
        raise ConfigError(
            f"pad_to_multiple_of={multiple} pads on the right, so it does not go with pad_direction='left'."
        )
    return pad_direction


def longest(rows: Iterable[Row]) -> int:
    """The length of the longest row.

    Raises:
        DataError: there are no rows, or one has no length.
    """
    rows = list(rows)
    try:
        return max(map(len, rows))
    except TypeError:
        kinds = ", ".join(sorted({type(row).__name__ for row in rows}))
        raise DataError(f"A row to pad must be a list, an array or a tensor; these are {kinds}.") from None
    except ValueError:
        raise DataError("There are no rows to pad: the batch is empty.") from None


def pad_rows(
    rows: Sequence[Row],
    *,
    value: float,
    width: int = 0,
    multiple: int = 1,
    direction: Direction = "right",
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """The rows as one tensor [b, w, ...], filled up with ``value`` on the right or left.

    The arguments are not changed, and the result shares no memory with them.

    Args:
        rows: lists, arrays or tensors [n, ...]; they may differ in n alone.
        value: what fills the rest of a row.
        width: pad at least to this many items.
        multiple: round the width up to a multiple of this.
        direction: the side that is filled.
        dtype: of the result; None: the type that holds all rows, int64 when all are empty.

    Raises:
        DataError: there are no rows, a row has no length, or the rows don't fit in one tensor of the type.
        ConfigError: ``multiple`` is not a positive integer, or ``value`` is none of the type.

    >>> pad_rows([[1, 2, 3], [4]], value=0, multiple=4)
    tensor([[1, 2, 3, 0],
            [4, 0, 0, 0]])
    """
    width = round_up(max(width, longest(rows)), multiple)
    # One allocation for the batch, into which NumPy copies the rows, is several times faster than a tensor a row.
    # Tensors stay tensors: NumPy knows neither bfloat16 nor devices.
    tensors = any(isinstance(row, torch.Tensor) for row in rows)
    try:
        parts = [torch.as_tensor(row) if tensors else _as_array(row) for row in rows]
        filled = [part for part in parts if len(part)]  # an empty list has no type of its own
        tails = {tuple(part.shape[1:]) for part in filled}
        if dtype is None:
            dtype = reduce(torch.promote_types, {_torch_dtype(part) for part in filled}) if filled else torch.int64
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"A row can't become a tensor: {error}. Rows hold numbers, in a regular shape.") from error
    if len(tails) > 1 or not all(_fits(part, dtype) for part in filled):
        held = ", ".join(f"{list(part.shape)} of {part.dtype}" for part in parts)
        raise DataError(f"These rows don't fit in one tensor of {dtype}: {held}.")
    _check_value(value, dtype)
    out = torch.full((len(parts), width, *(tails.pop() if tails else ())), value, dtype=dtype)
    lines: Any = out if tensors else out.numpy()
    for line, part in zip(lines, parts, strict=True):
        start = 0 if direction == "right" else width - len(part)
        line[start : start + len(part)] = part
    return out


def join_rows(
    rows: Sequence[np.ndarray | torch.Tensor],
    *,
    length: int,
    tail: float | np.ndarray,
    dtype: torch.dtype,
    pin_memory: bool = False,
) -> torch.Tensor:
    """The rows one after another in a new tensor [length], the rest of it filled with ``tail``.

    Args:
        rows: [n] each; together no longer than ``length``. There may be none.
        length: of the result.
        tail: what fills the rest: a number, or one for each place of the rest.
        dtype: of the result.
        pin_memory: whether the result lies in page-locked memory, from which a device copies while others work.

    Raises:
        DataError: a row has another number of axes, or numbers that the type doesn't hold.

    >>> join_rows([np.array([1, 2]), np.array([3])], length=5, tail=0, dtype=torch.int64).tolist()
    [1, 2, 3, 0, 0]
    """
    parts = [np.asarray(row) for row in rows]
    if not all(part.ndim == 1 and _fits(part, dtype) for part in parts):
        held = ", ".join(f"{list(part.shape)} of {part.dtype}" for part in parts)
        raise DataError(f"These rows can't be joined to one row of {dtype}: {held}. Each has one axis.")
    # Memory of its own for each batch: an earlier one may still be on its way to the device. Torch keeps page-locked
    # memory that was freed, and gives it out again once those copies are done.
    out = torch.empty(length, dtype=dtype, pin_memory=pin_memory)
    line, start = out.numpy(), 0
    for part in parts:
        line[start : start + len(part)] = part
        start += len(part)
    line[start:] = tail
    return out


def pad_blocks(
    blocks: Iterable[tuple[tuple[int | slice, ...], torch.Tensor]],
    *,
    shape: Sequence[int],
    like: torch.Tensor,
    value: int = 0,
) -> torch.Tensor:
    """A new tensor of ``shape`` that holds every block at its place, and ``value`` elsewhere.

    Args:
        blocks: (place, block); the place is an index of the result, of the block's shape.
        shape: of the result.
        like: a tensor whose dtype and device the result has.
        value: what fills the rest.

    >>> pad_blocks([((0, slice(0, 2)), torch.ones(2))], shape=(2, 3), like=torch.ones(1)).tolist()
    [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    out = like.new_full(tuple(shape), value) if value else like.new_zeros(tuple(shape))
    for place, block in blocks:
        out[place] = block
    return out


def _check_value(value: Any, dtype: torch.dtype) -> None:
    """Refuses a padding value that the tensor can't hold as it is: None of a tokenizer without padding, or 0.5."""
    try:
        fits = dtype.is_floating_point or (
            int(value) == value and (dtype == torch.bool or torch.iinfo(dtype).min <= value <= torch.iinfo(dtype).max)
        )
        float(value)
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits or isinstance(value, str):
        raise ConfigError(f"Rows of {dtype} can't be filled with {value!r}. Give padding_idx and ignore_idx numbers.")


def _as_array(row: Any) -> np.ndarray:
    if isinstance(row, np.ndarray):
        return row
    array = np.asarray(row)
    # Python floats become what torch makes of them.
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _torch_dtype(part: Any) -> torch.dtype:
    return part.dtype if isinstance(part, torch.Tensor) else torch.from_numpy(part[:1]).dtype


def _fits(part: Any, dtype: torch.dtype) -> bool:
    """True when the cast keeps the kind: integers may become longer or shorter integers, floats never integers."""
    if isinstance(part, torch.Tensor):
        return torch.can_cast(part.dtype, dtype)
    return part.dtype.kind in ("biuf" if dtype.is_floating_point else "b" if dtype == torch.bool else "biu")


def left_pad_sequence(
    sequences: Sequence[torch.Tensor], batch_first: bool = False, padding_value: float = 0
) -> torch.Tensor:
    """The tensors as one, filled up on the left: [t, b, ...], or [b, t, ...] with ``batch_first``.

    Like ``torch.nn.utils.rnn.pad_sequence`` with the other side padded.

    Raises:
        DataError: there are no sequences.

    >>> left_pad_sequence([torch.tensor([1, 2, 3]), torch.tensor([4])], batch_first=True)
    tensor([[1, 2, 3],
            [0, 0, 4]])
    """
    if len(sequences) == 0:
        raise DataError("There are no sequences to pad: the batch is empty.")
    return pad_sequence(list(sequences), batch_first=batch_first, padding_value=padding_value, padding_side="left")
