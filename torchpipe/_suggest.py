"""Helping a reader of an error find the name they meant."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: object, known: Iterable[object], *, cutoff: float = 0.6) -> str:
    """A sentence with a leading space that names the closest of ``known``, or an empty string when none is close.

    >>> did_you_mean("asistant", ["user", "assistant"])
    " Did you mean 'assistant'?"
    >>> did_you_mean("banana", ["user", "assistant"])
    ''
    """
    names = {str(word).lower(): str(word) for word in known}
    close = get_close_matches(str(name).lower(), names, n=1, cutoff=cutoff)
    return f" Did you mean {names[close[0]]!r}?" if close else ""


def listed(names: Iterable[object]) -> str:
    """The names in quotes with commas between them, for a sentence; "nothing" when there are none.

    >>> listed(["tokens", "labels"])
    "'tokens', 'labels'"
    """
    return ", ".join(repr(str(name)) for name in names) or "nothing"
