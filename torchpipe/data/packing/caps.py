"""Caps: the most of a quantity that a pack may hold, beside tokens."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from torchpipe._suggest import did_you_mean, listed
from torchpipe.errors import ConfigError, DataError

Cost = Sequence[int] | np.ndarray | Callable[[np.ndarray], np.ndarray]
"""What samples need of a capped quantity: whole numbers of 0 or more, one a sample; or a function that gives them by
the tokens of a document (a :class:`~torchpipe.data.packing.cost.CostModel` is one). A sample that is cut needs its
number in each part; a function is asked for each part."""


@dataclass(frozen=True, kw_only=True)
class Cap:
    """The most that a pack may hold of one quantity.

    Attributes:
        name: what errors call it.
        needs: int64, what each document, or each item, needs.
        limit: the most in a pack.
        closes: whether each of them needs some, so that a pack without room for more of it is full.
    """

    name: str
    needs: np.ndarray
    limit: int
    closes: bool = False


def caps_of(
    lengths: np.ndarray,
    sample: np.ndarray | None,
    num_samples: int,
    *,
    max_documents: int | None,
    cost: Cost | Mapping[str, Cost] | None,
    max_cost: int | Mapping[str, int] | None,
) -> tuple[Cap, ...]:
    """The caps that these options ask for.

    Args:
        lengths: tokens of each document.
        sample: the sample of each document; None where document i is sample i.
        num_samples: samples that there are.
        max_documents: see :func:`~torchpipe.data.packing.plan.plan_packs`, as ``cost`` and ``max_cost``.

    Raises:
        ConfigError: an option is not possible, or one is given without the other.
        DataError: costs are no whole numbers of 0 or more, one a sample.
    """
    caps: list[Cap] = []
    if max_documents is not None:
        limit = whole_number(max_documents, "max_documents")
        caps.append(Cap(name="documents", needs=np.broadcast_to(np.int64(1), len(lengths)), limit=limit, closes=True))
    costs = cost if isinstance(cost, Mapping) else {} if cost is None else {"cost": cost}
    limits = max_cost if isinstance(max_cost, Mapping) else {} if max_cost is None else {"cost": max_cost}
    for name in {**costs, **limits}:
        if name not in costs or name not in limits:
            given, other = ("cost", "max_cost") if name in costs else ("max_cost", "cost")
            hint = did_you_mean(name, limits if name in costs else costs)
            raise ConfigError(
                f"{given} has {name!r} and {other} does not. Give both, under the same names; they have "
                f"{listed(costs)} and {listed(limits)}.{hint}"
            )
        limit = whole_number(limits[name], f"max_cost of {name!r}")
        needs = _needs(name, costs[name], lengths, sample, num_samples)
        caps.append(Cap(name=name, needs=needs, limit=limit))
    return tuple(caps)


def whole_number(value: object, name: str) -> int:
    """The value, if it is a whole number above 0.

    Raises:
        ConfigError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ConfigError(f"{name} is {value!r}. Give a whole number above 0.")
    return int(value)


def _needs(name: str, cost: Cost, lengths: np.ndarray, sample: np.ndarray | None, num_samples: int) -> np.ndarray:
    values = np.asarray(cost(lengths.astype(np.int64)) if callable(cost) else cost)
    expected = len(lengths) if callable(cost) else num_samples
    if values.dtype.kind not in "iu" or values.shape != (expected,):
        raise DataError(
            f"The costs {name!r} are {values.dtype} {list(values.shape)}. Give whole numbers, one for each of the "
            f"{expected} {'documents' if callable(cost) else 'samples'}."
        )
    negative = np.flatnonzero(values < 0)
    if negative.size:
        raise DataError(f"The cost {name!r} of sample {negative[0]} is {values[negative[0]]}. Give 0 or more.")
    return values.astype(np.int64, copy=False) if callable(cost) or sample is None else values[sample].astype(np.int64)
