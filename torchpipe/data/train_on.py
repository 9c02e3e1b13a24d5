"""Which parts of the messages that are trained on count."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from torchpipe._suggest import did_you_mean, listed
from torchpipe.errors import ConfigError

Part = Literal["reasoning", "tool_calls", "answer"]
"""A part of a message: what it thinks, what it calls, and its text. The text beside a call is an answer too."""
TurnEnd = Literal["all", "last", "none"]


@dataclass(frozen=True, kw_only=True)
class TrainOn:
    """Which parts of a trained message count. What is masked already stays so; this only takes away.

    Attributes:
        reasoning: what a message thinks before its answer.
        tool_calls: its calls.
        answer: its text.
        turn_end: the token that ends a turn, at which sampling stops: of ``"all"`` trained messages, of the ``"last"``
            of them alone, or of ``"none"``.

    Raises:
        ConfigError: a value is none of these.

    >>> TrainOn(reasoning=False).trains("reasoning"), TrainOn().ends(is_last=False)
    (False, True)
    """

    reasoning: bool = True
    tool_calls: bool = True
    answer: bool = True
    turn_end: TurnEnd = "all"

    def __post_init__(self) -> None:
        for part in get_args(Part):
            if not isinstance(getattr(self, part), bool):
                raise ConfigError(f"train_on {part} is {getattr(self, part)!r}. It can be true or false.")
        if self.turn_end not in get_args(TurnEnd):
            near = did_you_mean(self.turn_end, get_args(TurnEnd))
            raise ConfigError(
                f"train_on turn_end is {self.turn_end!r}. It is one of {listed(get_args(TurnEnd))}.{near}"
            )

    def trains(self, part: Part) -> bool:
        """Whether this part of a trained message counts."""
        return getattr(self, part)

    def ends(self, *, is_last: bool) -> bool:
        """Whether the end of a trained turn counts; ``is_last``: no trained turn follows it."""
        return self.turn_end == "all" or (self.turn_end == "last" and is_last)

    @property
    def is_all(self) -> bool:
        """True when nothing is taken away."""
        return self == _ALL


_ALL = TrainOn()


TrainOnLike = TrainOn | Mapping[str, Any] | None
"""What an argument may be that says which parts count: None is all; a table has the fields of :class:`TrainOn`."""


def as_train_on(value: TrainOnLike) -> TrainOn:
    """The argument itself, or the one that a table of its fields describes; None is all.

    Raises:
        ConfigError: a field is unknown, or a value none of its own.

    >>> as_train_on({"turn_end": "last"}).turn_end
    'last'
    """
    if isinstance(value, TrainOn):
        return value
    if value is None:
        return _ALL
    known = [field.name for field in fields(TrainOn)]
    if not isinstance(value, Mapping):
        raise ConfigError(f"train_on is {value!r}. It is a table that may have {listed(known)}.")
    for name in value:
        if name not in known:
            raise ConfigError(f"train_on has {name!r}; it may have {listed(known)}.{did_you_mean(name, known)}")
    return TrainOn(**value)
