"""What decides the rows of a graph, as one short text of a state, and what differs from it."""

import hashlib
import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torchpipe.pipeline.node_label import SETTINGS

ROOM = 800
"""Characters that a state has in JSON for what decides the rows: a state is to have fewer than 1,024 in all."""

_MARK = 3
"""Characters of 6 bits for a name, and for what it stands for, where nodes are too many for their names."""

_PARTS = {"source": "its source", "processing": "its filters or processor", "tokenizer": "the tokenizer"}


def leaf_text(parts: Mapping[str, str]) -> str:
    """The fingerprint of a leaf in one short text: of its samples, and of what they are made of."""
    return " ".join([parts["samples"][:12], *(f"{name[0]}{parts.get(name, '')[:6]}" for name in _PARTS)])


def graph_text(graph: Mapping[str, str]) -> str:
    """What decides the rows, as one text.

    It is JSON: an object with a text for each node and setting, by its name, as long as that takes no more than
    ``ROOM`` characters. A larger graph's is a list: the settings, a hash of all nodes, and a mark of 6 characters for
    each node, of its name and of what it stands for. A node that differs is then named still, out of the graph that
    there is; those that are gone are counted. Where there is no room for marks either, they are left out.

    Args:
        graph: for each node its fingerprint, for each setting its value as text.

    >>> graph_text({"seed": "42", "chats": "mixes 5d41402a"})
    '{"chats":"mixes 5d41402a","seed":"42"}'
    >>> len(graph_text({"seed": "42", **{f"source {k}": "mixes 5d41402a" for k in range(100)}}))
    637
    """
    whole = _json(dict(sorted(graph.items())))
    if len(json.dumps(whole)) <= ROOM:
        return whole
    settings, nodes = _parted(graph)
    marks = "".join(sorted("".join(mark) for mark in _marks(nodes).values()))
    marked = _json([settings, _hash_of_all(nodes), marks])
    return marked if len(json.dumps(marked)) <= ROOM else _json([settings, _hash_of_all(nodes), ""])


def differences(text: str, graph: Mapping[str, str], *, allowed: Sequence[str] = ()) -> list[str]:
    """What of a graph is not as a state says: what a sentence says of each node and setting; [] where rows are equal.

    Args:
        text: of :func:`graph_text`.
        graph: what decides the rows now.
        allowed: nodes and settings that may differ.

    Raises:
        ValueError: it is no such text.

    >>> differences(graph_text({"seed": "42", "chats": "mixes 5d"}), {"seed": "1", "chats": "mixes 5d"})
    ['seed was 42 and is 1']
    """
    match json.loads(text):
        case {**before}:
            return _of_names(before, graph, allowed)
        case [dict(before), str(whole), str(marks)]:
            settings, nodes = _parted(graph)
            return _of_names(before, settings, allowed) + _of_marks(whole, marks, nodes, allowed)
        case _:
            raise ValueError("It is neither an object nor the list of a large graph.")


def knows(text: str, name: str) -> bool:
    """Whether a state has a node or setting of a name; of a large graph's, whether it may have.

    Raises:
        ValueError: it is no text of :func:`graph_text`.

    >>> knows(graph_text({"seed": "42", "chats": "mixes 5d"}), "chats")
    True
    """
    match json.loads(text):
        case {**before}:
            return name in before
        case [dict(before), str(), str(marks)]:
            names = {marks[k : k + _MARK] for k in range(0, len(marks), 2 * _MARK)}
            return name in before or _hash(name)[:_MARK] in names
        case _:
            raise ValueError("It is neither an object nor the list of a large graph.")


def _of_names(before: Mapping[str, str], now: Mapping[str, str], allowed: Sequence[str]) -> list[str]:
    return [
        sentence
        for name in sorted({*before, *now})
        if name not in allowed and (sentence := _difference(name, before.get(name), now.get(name)))
    ]


def _of_marks(whole: str, marks: str, nodes: Mapping[str, str], allowed: Sequence[str]) -> list[str]:
    if whole == _hash_of_all(nodes):
        return []
    if not marks:
        return [] if nodes.keys() <= {*allowed} else [f"a node differs, of {len(nodes)}, too many to know them by name"]
    size = 2 * _MARK
    before = {_Mark(marks[k : k + _MARK], marks[k + _MARK : k + size]) for k in range(0, len(marks), size)}
    names, now = {mark.name for mark in before}, _marks(nodes)
    differing = {name: mark for name, mark in sorted(now.items()) if mark not in before}
    found = [
        f"{name} changed" if mark.name in names else f"{name} is new"
        for name, mark in differing.items()
        if name not in allowed
    ]
    if gone := len(names - {mark.name for mark in now.values()} - {_hash(name)[:_MARK] for name in allowed}):
        found.append(f"{gone} node{'s are' if gone > 1 else ' is'} gone")
    has_gone = len(names) > len(names & {mark.name for mark in now.values()})
    return found if found or differing or has_gone else ["a node differs"]  # two short marks are alike by chance


class _Mark(NamedTuple):
    name: str
    value: str


def _parted(graph: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The settings, and the nodes."""
    settings = {name: graph[name] for name in sorted(graph) if name in SETTINGS}
    return settings, {name: graph[name] for name in graph if name not in SETTINGS}


def _marks(nodes: Mapping[str, str]) -> dict[str, _Mark]:
    """The marks of nodes by their names."""
    return {name: _Mark(_hash(name)[:_MARK], _hash(_rows_of(value))[:_MARK]) for name, value in nodes.items()}


def _hash_of_all(nodes: Mapping[str, str]) -> str:
    return _hash(_json(sorted((name, _rows_of(value)) for name, value in nodes.items())))


def _hash(text: str) -> str:
    """16 characters of 6 bits."""
    return urlsafe_b64encode(hashlib.blake2b(text.encode(), digest_size=12).digest()).decode()


def _rows_of(value: str) -> str:
    """What of a node's text decides its rows: of a leaf its samples, whatever they are made of."""
    words = value.split(" ")
    return words[0] if _is_leaf(words) else value


def _is_leaf(words: Sequence[str]) -> bool:
    return len(words) == len(_PARTS) + 1 and all(
        word[:1] == name[0] for word, name in zip(words[1:], _PARTS, strict=True)
    )


def _difference(name: str, before: str | None, now: str | None) -> str:
    """What a sentence says of a node or setting that differs; "" where the rows are the same."""
    if before == now:
        return ""
    if before is None:
        return f"{name} is new"
    if now is None:
        return f"{name} is gone"
    one, two = str(before).split(" "), now.split(" ")
    if not (_is_leaf(one) and _is_leaf(two)):
        return f"{name} was {before} and is {now}"
    if one[0] == two[0]:  # the same samples, whatever they are made of
        return ""
    parts = [words for words, a, b in zip(_PARTS.values(), one[1:], two[1:], strict=True) if a != b]
    return f"{name} gives other samples, for {' and '.join(parts)} changed" if parts else f"{name} changed"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
