"""A source of a mix: what it has, and how much of it there is to be."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from torchpipe.errors import ConfigError

_MOST_PASSES = 1 << 22
"""A source that is gone through more often in an epoch takes longer to plan than anybody waits."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MixSource:
    """What is known of one source of a mix.

    Attributes:
        name: which its order is hashed from.
        num_items: that it has.
        weight: its share of the units, relative to the others'.
        sizes: the units of each item, whole numbers [num_items]; None: each is one.
        max_passes: how often its items may be gone through in an epoch, 0.5 for half of them; None: no limit.
        items_before: items that earlier epochs have given, behind which this one goes on: its passes are then those of
            the whole run. None: where an epoch begins is for the schedule to say.

    Raises:
        ConfigError: a number is not possible.
    """

    name: str
    num_items: int
    weight: float
    sizes: np.ndarray | None = None
    max_passes: float | Fraction | None = None
    items_before: int | None = None

    def __post_init__(self) -> None:
        _check_positive(self.weight, f"The weight of {self.name}", "To leave the source out, take it out of the mix.")
        if self.max_passes is not None:
            _check_positive(self.max_passes, f"The epochs of {self.name}", "Leave it out for no limit.")
        if self.sizes is None:
            return
        if self.sizes.shape != (self.num_items,) or self.sizes.dtype.kind not in "iu":
            raise ConfigError(
                f"The sizes of {self.name} are an array {list(self.sizes.shape)} of {self.sizes.dtype}. Give a whole "
                f"number for each of its {self.num_items:,} items."
            )
        if self.num_items and self.num_units == 0:
            raise ConfigError(
                f"{self.name} has {self.num_items:,} items, and none of them counts for anything: it can have no share "
                "of the mix. Mix by rows, or take it out."
            )

    @cached_property
    def num_units(self) -> int:
        """Of all its items."""
        return self.num_items if self.sizes is None else int(self.sizes.sum(dtype=np.int64))

    def units_of(self, items: np.ndarray) -> int:
        """The units of some of its items, by their numbers."""
        return len(items) if self.sizes is None else int(self.sizes[items].sum(dtype=np.int64))

    @property
    def share(self) -> Fraction:
        """``weight``, exactly."""
        return _fraction(self.weight)

    @cached_property
    def passes_a_time(self) -> Fraction:
        """How often it is gone through in one unit of time."""
        return self.share / self.num_units

    def passes_until(self, end: Fraction) -> Fraction:
        """How often it is gone through until a time."""
        passes = self.passes_a_time * end
        return passes if self.most_passes is None else min(passes, self.most_passes)

    def check_passes(self, passes: float | Fraction) -> None:
        """Refuses to be gone through so often that an epoch is never planned.

        Raises:
            ConfigError: it is more than four million times.
        """
        if passes > _MOST_PASSES:
            raise ConfigError(
                f"{self.name} would be gone through more than {_MOST_PASSES:,} times in an epoch: its weight is too "
                "large beside those of others, or its items too few. Bring the weights nearer to each other, or limit "
                "how often it is gone through (epochs of a mix of data sets, max_epochs of a graph's)."
            )

    @property
    def most_passes(self) -> Fraction | None:
        """``max_passes``, exactly."""
        most = self.max_passes
        return most if most is None or isinstance(most, Fraction) else _fraction(most)


def tempered(sizes: Sequence[int], temperature: float) -> list[float]:
    """Weights in proportion to ``size ** (1 / temperature)``.

    At temperature 1 sources are mixed by their sizes, and the higher it is, the more even they are (Devlin et al. and
    Conneau et al. sampled languages so). At 1 they are the sizes; otherwise they are rounded to nine digits, so that
    every machine has the same.

    Args:
        sizes: above 0.

    Raises:
        ConfigError: the temperature is not a number above 0.

    >>> tempered([100, 10_000], 2)
    [0.1, 1.0]
    """
    _check_positive(temperature, "temperature", "1 mixes by size, 5 lifts small sources, 100 makes nearly all even.")
    if temperature == 1:
        return [float(size) for size in sizes]
    return [float(f"{(size / max(sizes)) ** (1 / temperature):.9g}") for size in sizes]


def _fraction(number: float) -> Fraction:
    """The decimal number that was written: 0.3 is 3/10."""
    return Fraction(repr(float(number)))


def _check_positive(value: Any, what: str, hint: str) -> None:
    is_number = isinstance(value, int | float | Fraction | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value <= 0:
        raise ConfigError(f"{what} is {value!r}. Give a number above 0. {hint}")
