"""The user's own planner: found by its dotted path, called, and held to what a plan is."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from operator import index
from typing import Any, cast

import numpy as np

from torchpipe._dotpath import resolve
from torchpipe.data.packing.coverage import first_fault
from torchpipe.data.packing.items import Items, Placed
from torchpipe.data.packing.pack_plan import PackPlan, Span, columns_of
from torchpipe.errors import ConfigError

_FORM_OF_PACKS = "push and flush return lists of packs, each a list of Span(sample, start, stop)"
_LARGEST = 2**63 - 1


def own_placement(strategy: str | Callable[..., Any], items: Items, capacities: tuple[int, ...]) -> Placed:
    """Where the user's planner puts items, checked.

    Raises:
        ConfigError: the path leads to nothing that can plan, or what it returned is no plan of these items: an item is
            in no pack or in two, a pack is empty, or holds more than it may.
    """
    name = strategy if isinstance(strategy, str) else getattr(strategy, "__qualname__", repr(strategy))
    plans = own_planner(strategy, capacities)
    if isinstance(plans, PackFunction):
        plan = plans(items.lengths)
        if not isinstance(plan, PackPlan):
            raise ConfigError(
                f"strategy {name}: a function of lengths and capacity returns a PackPlan (PackPlan.from_packs makes "
                f"one of packs of Spans), and this one returned a {type(plan).__name__}."
            )
        sample, start, stop, offsets = _whole_numbers(plan, name)
    else:
        sample, start, stop, offsets = columns_of(_checked(pushed(plans, items, name), name))
    fault = first_fault(sample, start, stop, offsets, items.lengths.astype(np.int64))
    fault = fault or _over_limit(items, capacities[-1], sample, stop - start, offsets)
    if fault is not None:
        raise ConfigError(
            f"strategy {name}: {fault}. A planner puts each token of the samples that it is given, numbered from 0, "
            "into one pack that holds it."
        )
    return Placed(order=sample, pack_offsets=offsets, start=start, stop=stop)


class PackFunction:
    """A user's function of lengths, bound to the capacities."""

    def __init__(self, function: Callable[..., Any], capacity: int | tuple[int, ...]) -> None:
        self._function = function
        self._capacity = capacity

    def __call__(self, lengths: np.ndarray) -> Any:
        """What the function makes of the lengths."""
        return self._function(lengths.astype(np.int64), self._capacity)


def own_planner(strategy: str | Callable[..., Any], capacities: tuple[int, ...]) -> Any:
    """A user's planner for packs of these lengths: an object with push and flush, or a :class:`PackFunction`.

    Raises:
        ConfigError: the path leads nowhere, or to something of another form.
    """
    name = strategy if isinstance(strategy, str) else getattr(strategy, "__qualname__", repr(strategy))
    target: object = resolve(strategy) if isinstance(strategy, str) else strategy
    capacity = capacities[0] if len(capacities) == 1 else capacities
    form = (
        "A planner is a class, or a function of the capacity, that gives an object with push(sample, num_tokens) and "
        "flush(); or a function of lengths and capacity that returns a PackPlan."
    )
    if not callable(target):
        raise ConfigError(f"strategy {name} is a {type(target).__name__}, which can't be called. {form}")
    if not inspect.isclass(target) and _takes(target, 2):
        return PackFunction(target, capacity)
    if not _takes(target, 1):
        raise ConfigError(f"strategy {name} can't be called with a capacity. {form}")
    planner = cast(Callable[[Any], Any], target)(capacity)
    if not callable(getattr(planner, "push", None)) or not callable(getattr(planner, "flush", None)):
        raise ConfigError(f"strategy {name} gave a {type(planner).__name__} without push and flush. {form}")
    return planner


def pushed(planner: Any, items: Items, name: str) -> Iterator[Any]:
    """The packs of a planner that is given all items one by one.

    Raises:
        ConfigError: it returned something else than an iterable of packs.
    """
    for item, num_tokens in enumerate(items.lengths.tolist()):
        yield from _packs(planner.push(item, num_tokens), name)
    yield from _packs(planner.flush(), name)


def _packs(returned: Any, name: str) -> Iterable[Any]:
    if not isinstance(returned, Iterable):
        raise ConfigError(f"strategy {name}: {_FORM_OF_PACKS}, and one returned {returned!r}. Return [] for no pack.")
    return returned


def _checked(packs: Iterator[Any], name: str) -> Iterator[list[Span]]:
    """The packs, once each is known to be made of spans."""
    for pack in packs:
        try:
            spans = [Span(*(index(number) for number in span)) for span in pack]
            if any(abs(number) > _LARGEST for span in spans for number in span):
                raise TypeError("a number has more than 64 bits")
        except TypeError as error:
            raise ConfigError(f"strategy {name}: {_FORM_OF_PACKS}, and one of them was {pack!r} ({error}).") from error
        yield spans


def _whole_numbers(plan: PackPlan, name: str) -> list[np.ndarray]:
    """The arrays of a user's plan that say which spans share a pack."""
    spans = len(plan.sample)
    found: list[np.ndarray] = []
    for field, length in (("sample", spans), ("start", spans), ("stop", spans), ("pack_offsets", None)):
        values = np.asarray(getattr(plan, field))
        if values.dtype.kind not in "iu" or values.ndim != 1 or length not in (None, len(values)):
            raise ConfigError(
                f"strategy {name}: the plan's {field} is {values.dtype} {list(values.shape)}, and has to be whole "
                "numbers in one axis; sample, start and stop have one for each span."
            )
        found.append(values.astype(np.int64, copy=False))
    return found


def _takes(target: Callable[..., Any], num_arguments: int) -> bool:
    try:
        inspect.signature(target).bind(*range(num_arguments))
    except (TypeError, ValueError):
        return False
    return True


def _over_limit(
    items: Items, longest: int, sample: np.ndarray, num_tokens: np.ndarray, offsets: np.ndarray
) -> str | None:
    quantities = [("tokens", num_tokens, longest)]
    quantities += [(cap.name, cap.needs[sample], cap.limit) for cap in items.caps]
    for name, values, limit in quantities:
        sums = np.add.reduceat(values, offsets[:-1]) if len(offsets) > 1 else np.empty(0, dtype=np.int64)
        if sums.size and int(sums.max()) > limit:
            pack = int(np.argmax(sums > limit))
            return f"pack {pack} holds {name} of {sums[pack]}, and it may hold {limit}"
    return None
