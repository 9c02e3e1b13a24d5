"""Finding the shape of a row in the table of shapes."""

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.schema import SHAPES, Kind, Shape, kind_of
from torchpipe.errors import ColumnError, ConfigError

_BY_NAME = {shape.name: shape for shape in SHAPES}
_MOST_REMEMBERED = 4096
_WAY_OUT = (
    "Name its columns in column_map ({input: ..., output: ...} or {messages: ...}), or use sft_dataset with a "
    "message_transform."
)


class _Allowed(NamedTuple):
    """What the columns of a row allow: shapes, and the columns whose kinds tell them apart."""

    shapes: tuple[Shape, ...]
    telling: tuple[str, ...]


class Found(NamedTuple):
    """The shape of a row, and whether the row has a value in one of the columns that were asked about, beside those
    that the shape reads.
    """

    shape: Shape
    extra: bool


class ShapeFinder:
    """Finds the shape of rows, and remembers it for rows of the same columns that hold the same kinds of values.

    Args:
        shapes: names of the only ones to consider; None: all.
        also: columns to ask about.

    Raises:
        ConfigError: there is no shape of such a name.

    >>> ShapeFinder().found({"question": "1 + 1?", "answer": "2", "id": 3}).shape.name
    'question and answer'
    """

    def __init__(self, shapes: Sequence[str] | None = None, *, also: Sequence[str] = ()) -> None:
        for name in shapes or ():
            if name not in _BY_NAME:
                raise ConfigError(
                    f"There is no shape {name!r}.{did_you_mean(name, _BY_NAME)} There are {listed(_BY_NAME)}."
                )
        self.shapes = SHAPES if shapes is None else tuple(_BY_NAME[name] for name in shapes)
        self._allowed: dict[tuple[str, ...], _Allowed] = {}
        self._found: dict[tuple[tuple[str, ...], tuple[Kind, ...]], Found] = {}
        self._also = frozenset(also)

    def found(self, row: Mapping[str, Any]) -> Found:
        """The row's shape, which has messages.

        Raises:
            ColumnError: no shape fits, or several do, or one without messages; the sentence names the columns.
        """
        columns = tuple([column for column, value in row.items() if value is not None])
        allowed = self._allowed.get(columns)
        if allowed is None:
            allowed = self._allowed_by(columns)
        kinds = tuple([kind_of(row[column]) for column in allowed.telling])
        found = self._found.get((columns, kinds))
        if found is None:
            shape = self._decided(columns, allowed, dict(zip(allowed.telling, kinds, strict=True)))
            found = Found(shape, not self._also.isdisjoint(set(columns) - shape.columns))
            if len(self._found) < _MOST_REMEMBERED:
                self._found[columns, kinds] = found
        return found

    def _allowed_by(self, columns: tuple[str, ...]) -> _Allowed:
        there = set(columns)
        shapes = tuple(shape for shape in self.shapes if there.issuperset(shape.needs))
        allowed = _Allowed(shapes, tuple(dict.fromkeys(column for shape in shapes for column in shape.holds)))
        if len(self._allowed) < _MOST_REMEMBERED:
            self._allowed[columns] = allowed
        return allowed

    def _decided(self, columns: tuple[str, ...], allowed: _Allowed, kinds: Mapping[str, Kind]) -> Shape:
        fitting = [
            shape for shape in allowed.shapes if all(holds(kinds[column]) for column, holds in shape.holds.items())
        ]
        read = {shape.name: shape.columns & set(columns) for shape in fitting}
        fitting = [shape for shape in fitting if not any(read[shape.name] < read[other.name] for other in fitting)]
        readable = [shape for shape in fitting if shape.reading is not None]
        if len(readable) == 1:
            return readable[0]
        held = f"The row has {listed(columns)}"
        if readable:
            raise ColumnError(
                f"{held}, which fits more than one shape: {listed(shape.name for shape in readable)}. Say which by "
                "shapes=[...], or leave the other columns out of the source."
            )
        if fitting:
            raise ColumnError(f"{held}: {fitting[0].name}, which is no conversation to train on. {fitting[0].instead}.")
        if allowed.telling:
            what = ", ".join(f"{column!r} holds {_in_words(kinds[column])}" for column in allowed.telling)
            raise ColumnError(f"{held}, and {what}, which is no known shape. {_WAY_OUT}")
        raise ColumnError(f"{held}, which is no known shape. Nearest: {self._nearest(columns)}. {_WAY_OUT}")

    def _nearest(self, columns: Sequence[str]) -> str:
        """The three shapes whose columns are most like the row's, and what the row lacks."""

        def likeness(shape: Shape) -> float:
            best = [
                max((SequenceMatcher(None, need, column).ratio() for column in columns), default=0.0)
                for need in shape.needs
            ]
            return sum(best) / len(best)

        readable = [shape for shape in self.shapes if shape.reading not in (None, "tagged")]
        near = sorted(readable, key=lambda shape: (-likeness(shape), self.shapes.index(shape)))[:3]
        return "; ".join(f"{shape.name} (lacks {listed(n for n in shape.needs if n not in columns)})" for shape in near)


def _in_words(kind: Kind) -> str:
    words = {"turns": "dicts with", "texts": "a list of texts", "text": "text", "flag": "a flag", "list": "a list of"}
    if kind[0] == "turns":
        return f"dicts with {listed(key for key in kind[1:] if not key.startswith('~'))}"
    return f"{words['list']} {kind[1]}" if kind[0] == "list" else words.get(kind[0], f"a {kind[0]}")
