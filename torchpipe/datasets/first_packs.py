"""A look at the first packs of a data set, without reading all of its samples."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass(kw_only=True)
class FirstPacks:
    """How far data sets are packed within :func:`first_packs`.

    Attributes:
        num_packs: of each data set; None: all.
        unfinished: the data sets that would have gone on after these.
    """

    num_packs: int | None
    unfinished: list[Any] = field(default_factory=list)

    def at_most(self, max_packs: int | None) -> int | None:
        """The smaller of a data set's own limit and this one."""
        return min((limit for limit in (self.num_packs, max_packs) if limit is not None), default=None)


_asked: ContextVar[FirstPacks | None] = ContextVar("_asked", default=None)


@contextmanager
def first_packs(num_packs: int | None) -> Iterator[FirstPacks]:
    """Within it, a :class:`~torchpipe.datasets.PackedDataset` reads only what its first ``num_packs`` packs need.

    They are the packs that it begins with in any case, for both strategies fill packs in the order of the samples.
    """
    asked = FirstPacks(num_packs=num_packs)
    token = _asked.set(asked)
    try:
        yield asked
    finally:
        _asked.reset(token)


def asked_for() -> FirstPacks | None:
    """What the innermost :func:`first_packs` asks for; None outside of any."""
    return _asked.get()
