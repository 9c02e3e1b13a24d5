"""Notices that rows are made with random numbers of the program's global generators.

Those go on from wherever the program has brought them, so that a row made again is another one: by a run that goes on,
by another worker, in another order. Nothing else would tell.

It warns, and is no error: other threads of the program draw from the same generators, and so may a library for what
decides no row. So that neither is taken for it easily, a few rows are looked at, and two of them must have drawn.
Torch's generator is not watched, for a model's dropout draws from it in another thread all the time.
"""

import pickle
import random
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

Made = TypeVar("Made")

_FIRST = 8
_EACH = 256
"""The first rows are looked at, and then one of so many: to read the states takes as long as many a row."""

_ENOUGH = 2


class GlobalDraws:
    """Looks at some of the rows that are made in this process, and warns once.

    Args:
        called: what makes them, for the warning; "": nothing that could draw.
        source: what their source is called.

    >>> draws = GlobalDraws("Cropped", "news")
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     numbers = [draws.watched(random.random) for _ in range(9)]
    >>> len(told), str(told[0].message).split(',')[0]
    (1, 'Cropped of news draws from the global generator of random')
    """

    def __init__(self, called: str, source: str) -> None:
        self._called = called
        self._source = source
        self._num_rows = 0
        self._num_drew = 0
        self._has_warned = not called

    def watched(self, make: Callable[[], Made]) -> Made:
        """What ``make`` gives for a row."""
        self._num_rows += 1
        is_looked_at = self._num_rows <= _FIRST or self._num_rows % _EACH == 0 or self._num_drew >= _ENOUGH
        if self._has_warned or not is_looked_at:
            return make()
        before = _states()
        made = make()
        after = _states()
        if after != before:
            self._num_drew += 1
            if self._num_drew >= _ENOUGH:
                self._warn([name for name, state in after.items() if state != before[name]])
                self._has_warned = True  # unless warnings are errors: the row may be made again to find where
        return made

    def _warn(self, names: list[str]) -> None:
        generators = "generators" if len(names) > 1 else "generator"
        warnings.warn(
            f"{self._called} of {self._source} draws from the global {generators} of {' and '.join(names)}, or another "
            "thread does while it makes rows. A run that goes on, or has another number of workers, then gets other "
            "rows. Draw from the rng that __call__ of a SampleProcessor is given, which belongs to the row; a filter "
            "has none, and decides by what a row holds.",
            stacklevel=3,
        )


def makers_called(processor: Any, pre_filters: Any, post_filters: Any) -> str:
    """What makes rows, for a warning: the processor's class, and whether there are filters.

    >>> makers_called(None, [len], [])
    'a filter'
    """
    names = [] if processor is None else [type(processor).__qualname__]
    return " or ".join([*names, *(["a filter"] if pre_filters or post_filters else [])])


def _states() -> dict[str, Any]:
    return {"random": random.getstate(), "numpy.random": pickle.dumps(np.random.get_state(legacy=False))}
