"""Where a loader stands, as a small flat dict, and what it has to belong to."""

import json
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torchpipe._suggest import did_you_mean, listed
from torchpipe.errors import ConfigError, LoaderStateError
from torchpipe.pipeline.graph_text import differences, knows

STATE_VERSION = 2
"""1 is TorchTitan's, which holds a state of Grain for each rank."""


def checked_state(
    state: Mapping[str, Any], graph: Mapping[str, str], *, way: str, allow_changed: Sequence[str]
) -> Mapping[str, Any]:
    """The state, if a loader of this graph can go on from it.

    Args:
        state: as a loader gave it.
        graph: what decides the rows now: for each node its fingerprint, for each setting its value as text.
        way: how the graph runs now: "planned" or "grain".
        allow_changed: nodes and settings that may differ.

    Raises:
        LoaderStateError: it has another version, is damaged, or is of other rows; all that differs is named.
        ConfigError: allow_changed names what neither the graph nor the state has.
    """
    if not isinstance(state, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LoaderStateError(f"The loader's state is a {type(state).__name__}. It is the dict of state_dict().")
    version = state.get("version")
    if version != STATE_VERSION:
        raise LoaderStateError(
            f"unsupported GrainDataLoader state version {version!r}: this one reads {STATE_VERSION}. Start anew."
        )
    if state.get("way") != way:
        raise LoaderStateError(
            f"The state is of a graph that ran {_WAYS.get(str(state.get('way')), 'otherwise')}, and now it runs "
            f"{_WAYS[way]}. Put the graph back as it was, or start anew."
        )
    try:
        unknown = [name for name in allow_changed if name not in graph and not knows(state["graph"], name)]
        changed = differences(state["graph"], graph, allowed=allow_changed)
    except (KeyError, TypeError, ValueError, RecursionError):
        raise _unreadable(state, "graph") from None
    if unknown:
        raise ConfigError(
            f"allow_changed has {unknown[0]!r}, and the graph has {listed(graph)}.{did_you_mean(unknown[0], graph)}"
        )
    if changed:
        raise LoaderStateError(
            f"The loader's state belongs to other rows: {'; '.join(changed)}. Put these back to go on with the same "
            "rows, name them in allow_changed to go on at the same place with others, or start anew."
        )
    return state


def whole_number_of(state: Mapping[str, Any], name: str) -> int:
    """A whole number of the state.

    Raises:
        LoaderStateError: it has none of that name.
    """
    value = state.get(name)
    if type(value) is not int or value < 0:
        raise LoaderStateError(f"The loader's state has {name} {value!r}. It is a whole number from 0 on.")
    return value


_WAYS = {"planned": "as a plan, from a store", "grain": "by Grain, as rows come"}


def _json(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    try:
        found = json.loads(state[name])
    except (KeyError, TypeError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise _unreadable(state, name)
    return found


def _unreadable(state: Mapping[str, Any], name: str) -> LoaderStateError:
    told = reprlib.repr(state.get(name))
    return LoaderStateError(f"The loader's state has {name} {told}, which can't be read. Start anew.")


class ShardPlace(NamedTuple):
    """Where a part stands.

    Attributes:
        num_batches: that it has given.
        state: of Grain, as JSON.
    """

    num_batches: int
    state: str


PARTS = "parts"
"""What a state calls the places of parts. It is one text, so that states of any number of parts have the same names."""


def parts_text(places: Mapping[int, ShardPlace]) -> str:
    """Where parts stand, as one text.

    >>> parts_text({1: ShardPlace(12, '{"next": 5}')})
    '{"1":[12,{"next":5}]}'
    """
    told = {str(shard): [place.num_batches, json.loads(place.state)] for shard, place in sorted(places.items())}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def parts_of(state: Mapping[str, Any]) -> dict[int, ShardPlace]:
    """Where the parts stand that a state knows of.

    Raises:
        LoaderStateError: it has no such text.
    """
    found: dict[int, ShardPlace] = {}
    for shard, place in _json(state, PARTS).items():
        if not (shard.isdecimal() and isinstance(place, list) and len(place) == 2 and type(place[0]) is int):
            raise LoaderStateError(f"The loader's state has a part {shard!r} that stands at {place!r}. Start anew.")
        found[int(shard)] = ShardPlace(place[0], json.dumps(place[1], ensure_ascii=False, separators=(",", ":")))
    return found


def merged_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One state of those that several ranks gave, for any other number of ranks.

    A state of a planned graph is the same on all ranks, and needs no others. Of a graph that Grain runs, a rank knows
    the parts that it reads. Under ``torch.distributed`` :meth:`GrainDataLoader.state_dict` has already merged them.

    Args:
        states: of all ranks, of the same moment.

    Raises:
        LoaderStateError: they are not of one moment of one run.
    """
    merged: dict[str, Any] = {}
    places: dict[int, ShardPlace] = {}
    for state in states:
        for name, value in state.items():
            if name != PARTS and merged.setdefault(name, value) != value:
                raise LoaderStateError(
                    f"States of several moments or runs can't be one: {name} is {merged[name]!r} and {value!r}."
                )
        if PARTS in state:
            for shard, place in parts_of(state).items():
                places[shard] = max(place, places.get(shard, place), key=lambda one: one.num_batches)
            merged[PARTS] = parts_text(places)
    return merged
