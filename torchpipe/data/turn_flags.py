"""What a turn of the data itself says about being trained on."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from torchpipe._suggest import listed
from torchpipe.errors import MessageError

_TRAINED_KEYS = ("train", "training", "loss")
_WEIGHT_KEYS = ("weight", "loss_weight")
FLAG_KEYS = frozenset((*_TRAINED_KEYS, *_WEIGHT_KEYS, "masked"))
"""The keys of a turn that :func:`turn_flags` reads, and nobody else: no part of what is said."""


class TurnFlags(NamedTuple):
    """``train``: True trains the message whatever the strategy, False never, None leaves it to the strategy.
    ``weight``: how much its tokens count; None where the turn does not say."""

    train: bool | None
    weight: float | None


def turn_flags(turn: Mapping[str, Any], where: str) -> TurnFlags:
    """What the turn's own keys say.

    ====================================  =====================================================================
    ``train``, ``training``, ``loss``     true: trained, whatever the strategy; false: not trained
    ``masked``, ``metadata["masked"]``    true: not trained; false is the default, and leaves it to the strategy
    ``weight``, ``loss_weight``           0: not trained; any other number scales what the strategy trains
    ====================================  =====================================================================

    Nulls are keys that are absent: Arrow gives every turn all the keys that any turn has.

    Args:
        turn: one turn of a row.
        where: what errors call it: "turn 3 ('assistant')".

    Raises:
        DataError: a value is of another type, or two keys say different things.

    >>> turn_flags({"role": "assistant", "content": "Hi", "train": False}, "turn 0")
    TurnFlags(train=False, weight=None)
    """
    said: dict[str, bool] = {key: _flag(turn[key], key, where) for key in _TRAINED_KEYS if turn.get(key) is not None}
    metadata = turn.get("metadata")
    nested = metadata.get("masked") if isinstance(metadata, Mapping) else None
    for key, value in (("masked", turn.get("masked")), ("metadata.masked", nested)):
        if value is not None and _flag(value, key, where):
            said[key] = False
    weights = {key: _weight(turn[key], key, where) for key in _WEIGHT_KEYS if turn.get(key) is not None}
    if len(set(weights.values())) > 1:
        raise MessageError(
            f"{listed(weights)} of {where} are {', '.join(map(str, weights.values()))}. Keep one of them."
        )
    weight = next(iter(weights.values()), None)
    if weight == 0:
        said |= dict.fromkeys(weights, False)
    if len(set(said.values())) > 1:
        trains = [key for key in said if said[key]]
        raise MessageError(
            f"{where[:1].upper()}{where[1:]} asks to be trained on by {listed(trains)}, and not to be by "
            f"{listed(key for key in said if not said[key])}. Keep one of them."
        )
    return TurnFlags(next(iter(said.values()), None), weight)


def _flag(value: Any, key: str, where: str) -> bool:
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise MessageError(f"{key}={value!r} of {where} is a {type(value).__name__}. It must be true or false.")


def _weight(value: Any, key: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise MessageError(f"The {key} of {where} is {value!r}. It must be a number, 0 or above: 0 is not trained.")
    return value
