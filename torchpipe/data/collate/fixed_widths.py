"""Batches of few widths, so that a compiled model is compiled few times."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torchpipe.data.padding import longest, round_up
from torchpipe.errors import ConfigError, DataError

NUM_WIDTHS = 8
"""Widths where no multiple is given: more cost compilations, fewer cost padding."""


class FixedWidths:
    """A collate function whose batches have one of a few widths: multiples of ``multiple``, and ``max_seq_len``.

    A batch is as wide as the first of them that holds its longest sample. What is added is padding, which trains
    nothing: the loss is the same.

    Args:
        collate_fn: takes ``pad_to_multiple_of``, as :func:`~torchpipe.data.padded_collate_sft` does.
        max_seq_len: tokens of the longest sample, the last width.
        multiple: None: an eighth of ``max_seq_len``, rounded up to a multiple of 8.
        sample_key: what of a sample has its length.

    Attributes:
        widths: all widths there are, ascending.

    Raises:
        ConfigError: a number is not possible, or ``collate_fn`` takes no ``pad_to_multiple_of``.

    >>> from torchpipe.data import padded_collate_sft
    >>> collate = FixedWidths(padded_collate_sft, max_seq_len=20, multiple=8)
    >>> collate.widths
    (8, 16, 20)
    >>> collate([{"tokens": [1] * 9, "labels": [2] * 9}, {"tokens": [1], "labels": [2]}])["tokens"].shape
    torch.Size([2, 16])
    """

    def __init__(
        self,
        collate_fn: Callable[..., Any],
        *,
        max_seq_len: int,
        multiple: int | None = None,
        sample_key: str = "tokens",
    ) -> None:
        if max_seq_len < 1:
            raise ConfigError(f"max_seq_len is {max_seq_len}. Give 1 or more.")
        if multiple is None:
            multiple = round_up(-(-max_seq_len // NUM_WIDTHS), 8)
        if "pad_to_multiple_of" not in inspect.signature(collate_fn).parameters:
            inner = collate_fn.func if isinstance(collate_fn, partial) else collate_fn
            name = getattr(inner, "__name__", type(inner).__name__)
            raise ConfigError(
                f"static_shapes needs a collate_fn with an argument pad_to_multiple_of, and {name} has none. Use "
                "torchpipe.data.padded_collate_sft, add the argument, or set static_shapes=false."
            )
        self.widths: tuple[int, ...] = tuple(
            min(width, max_seq_len) for width in range(multiple, round_up(max_seq_len, multiple) + 1, multiple)
        )
        self._collate_fn, self._sample_key = collate_fn, sample_key

    def __call__(self, batch: Sequence[Any], **kwargs: Any) -> Any:
        """The batch, of one of the widths.

        Raises:
            DataError: a sample is longer than ``max_seq_len``.
        """
        length = longest([sample[self._sample_key] for sample in batch])
        width = next((width for width in self.widths if width >= length), None)
        if width is None:
            raise DataError(
                f"A sample has {length} tokens, and max_seq_len is {self.widths[-1]}. Raise it, or cut the rows."
            )
        return self._collate_fn(batch, **kwargs, pad_to_multiple_of=width)
