"""Where a loader stands, as a small flat dict, and what it has to belong to."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torchpipe._suggest import did_you_mean, listed
from torchpipe.errors import ConfigError, LoaderStateError

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
        ConfigError: allow_changed names what there is not.
    """
    if unknown := [name for name in allow_changed if name not in graph]:
        raise ConfigError(
            f"allow_changed has {unknown[0]!r}, and the graph has {listed(graph)}.{did_you_mean(unknown[0], graph)}"
        )
    if not isinstance(state, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LoaderStateError(f"The loader's state is a {type(state).__name__}. It is the dict of state_dict().")
    version = state.get("version")
    if version != STATE_VERSION:
        raise LoaderStateError(
            f"unsupported GrainDataLoader state version {version!r}: this one reads {STATE_VERSION}. Start anew."
        )
    before = _json(state, "graph")
    if state.get("way") != way:
        raise LoaderStateError(
            f"The state is of a graph that ran {_WAYS.get(str(state.get('way')), 'otherwise')}, and now it runs "
            f"{_WAYS[way]}. Put the graph back as it was, or start anew."
        )
    changed = [
        sentence
        for name in sorted({*before, *graph})
        if name not in allow_changed and (sentence := _difference(name, before.get(name), graph.get(name)))
    ]
    if changed:
        raise LoaderStateError(
            f"The loader's state belongs to other rows: {'; '.join(changed)}. Put these back to go on with the same "
            "rows, name them in allow_changed to go on at the same place with others, or start anew."
        )
    return state


def graph_text(graph: Mapping[str, str]) -> str:
    """What decides the rows, as one text."""
    return json.dumps(dict(sorted(graph.items())), ensure_ascii=False, separators=(",", ":"))


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

_PARTS = {"source": "its source", "processing": "its filters or processor", "tokenizer": "the tokenizer"}


def leaf_text(parts: Mapping[str, str]) -> str:
    """The fingerprint of a leaf in one short text: of its samples, and of what they are made of."""
    return " ".join([parts["samples"][:12], *(f"{name[0]}{parts.get(name, '')[:6]}" for name in _PARTS)])


def _difference(name: str, before: str | None, now: str | None) -> str:
    """What a sentence says of a node or setting that differs; "" where the rows are the same."""
    if before == now:
        return ""
    if before is None:
        return f"{name} is new"
    if now is None:
        return f"{name} is gone"
    one, two = before.split(" "), now.split(" ")
    if len(one) != len(two) or len(one) != len(_PARTS) + 1:
        return f"{name} was {before} and is {now}"
    if one[0] == two[0]:  # the same samples, whatever they are made of
        return ""
    parts = [words for words, a, b in zip(_PARTS.values(), one[1:], two[1:], strict=True) if a != b]
    return f"{name} gives other samples, for {' and '.join(parts)} changed" if parts else f"{name} changed"


def _json(state: Mapping[str, Any], name: str) -> dict[str, str]:
    try:
        found = json.loads(state[name])
    except (KeyError, TypeError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise LoaderStateError(f"The loader's state has {name} {state.get(name)!r}, which can't be read. Start anew.")
    return found


class ShardPlace(NamedTuple):
    """Where a part stands.

    Attributes:
        num_batches: that it has given.
        state: of Grain, as JSON.
    """

    num_batches: int
    state: str


SHARD = "shard_"
"""What the states of parts are called, before their numbers."""


def merged_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One state of those that several ranks gave, for any other number of ranks.

    A state of a planned graph is the same on all ranks, and needs no others. Of a graph that Grain runs, each rank's
    holds the parts that it reads.

    Args:
        states: of all ranks, of the same moment.

    Raises:
        LoaderStateError: they are not of one moment of one run.
    """
    merged: dict[str, Any] = {}
    for state in states:
        for name, value in state.items():
            if name.startswith(SHARD):
                merged[name] = max(value, merged.get(name, ""), key=_how_far)
            elif merged.setdefault(name, value) != value:
                raise LoaderStateError(
                    f"States of several moments or runs can't be one: {name} is {merged[name]!r} and {value!r}."
                )
    return merged


def _how_far(text: str) -> int:
    place = place_of(text)
    return -1 if place is None else place.num_batches


def place_text(place: ShardPlace | None) -> str:
    """Where a part stands, as a text; "" where it was not read."""
    return "" if place is None else f"{place[0]} {place[1]}"


def place_of(text: object) -> ShardPlace | None:
    """Where a part stands, of such a text; None for "".

    Raises:
        LoaderStateError: it is none.
    """
    if text == "":
        return None
    number, _, state = str(text).partition(" ")
    if not number.isdecimal() or not state:
        raise LoaderStateError(f"The loader's state has a part that stands at {text!r}. Start anew.")
    return ShardPlace(int(number), state)
