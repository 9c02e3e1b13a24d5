"""What a chat template may use up: templates come from strangers, and one that never ends must not stop a job.

Nothing here needs signals or threads. The compiled template calls :meth:`RenderState.tick` at each step of a loop and
at each call of a macro, and every operation that can make a large text out of small ones says first how large.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torchpipe.errors import TokenizerError

_MAX_WIDTH = 10_000  # of a padded field, an indent
_MAX_BITS = 100_000  # of a number
_WIDE_FIELD = re.compile(r"\d{5,}|\*")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one render may use.

    Attributes:
        max_characters: of the output, and of every text and list on the way.
        max_steps: of loops and calls of macros, together.
        max_seconds: from start to end.
    """

    max_characters: int = 50_000_000
    max_steps: int = 20_000_000
    max_seconds: float = 20.0

    def check_size(self, size: int) -> None:
        """Refuses a text or a list of that size."""
        if size > self.max_characters:
            raise TokenizerError(
                f"It makes a text or list of {size:,} elements, more than the {self.max_characters:,} that are allowed."
            )


class RenderState:
    """What one render has used so far.

    Attributes:
        printed: characters of the output so far, which the template prints piece by piece.
        steps: of loops and calls of macros.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.printed = 0
        self.steps = 0
        self._deadline = time.monotonic() + self.limits.max_seconds

    def tick(self) -> None:
        """Counts one step; every few of them, looks at the clock."""
        self.steps += 1
        if self.steps & 127 == 0:
            self.check()

    def check(self) -> None:
        """Refuses a template that takes too many steps or too long."""
        if self.steps > self.limits.max_steps:
            raise TokenizerError(f"It takes more than the {self.limits.max_steps:,} steps that are allowed.")
        if time.monotonic() > self._deadline:
            raise TokenizerError(f"It takes longer than the {self.limits.max_seconds:g} seconds that are allowed.")

    def text_of(self, chunks: Iterable[str]) -> str:
        """The output as one text, counted as it comes."""
        allowed = self.limits.max_characters
        texts: list[str] = []
        for chunk in chunks:
            texts.append(chunk)
            self.printed += len(chunk)
            if self.printed > allowed:
                self.limits.check_size(self.printed)
        return "".join(texts)

    def counted(self, chunks: Iterable[str | tuple[str, ...]]) -> Iterator[str]:
        """The texts of the output, counted as they come; some come several at once."""
        allowed = self.limits.max_characters
        for chunk in chunks:
            for text in chunk if type(chunk) is tuple else (chunk,):
                self.printed += len(text)
                if self.printed > allowed:
                    self.limits.check_size(self.printed)
                yield text  # type: ignore[misc]


def _longest(values: Iterable[Any]) -> int:
    return max((len(value) if isinstance(value, (str, list, tuple, dict)) else 32 for value in values), default=0)


def _parts(text: str, sep: str | None = None, maxsplit: int = -1) -> int:
    """Room for the parts of a text: each takes as much as some fifty characters."""
    parts = text.count(sep) if sep else len(text) // 16
    return 50 * (min(parts, maxsplit) if maxsplit >= 0 else parts)


# How large the result of a text's method can get, for those that can get larger than their receiver.
_SIZES: dict[str, Callable[..., int]] = {
    "center": lambda text, width, fillchar=" ": width,
    "ljust": lambda text, width, fillchar=" ": width,
    "rjust": lambda text, width, fillchar=" ": width,
    "zfill": lambda text, width: width,
    "expandtabs": lambda text, tabsize=8: len(text) + text.count("\t") * tabsize,
    "replace": lambda text, old, new, count=-1: len(text) + text.count(old) * len(new),
    "translate": lambda text, table: len(text) * max(_longest(table.values()), 1),
    "join": lambda text, items: len(text) * len(items) + sum(map(len, items)),
    "split": _parts,
    "rsplit": _parts,
    "splitlines": lambda text, keepends=False: _parts(text, "\n"),
    "format": lambda text, *args, **kwargs: len(text) + text.count("{") * _longest([*args, *kwargs.values()]),
    "format_map": lambda text, mapping: len(text) + text.count("{") * _longest(mapping.values()),
}
GROWING_METHODS = frozenset(_SIZES)


def bounded_method(limits: Limits, name: str, text: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a text, which refuses to make one that is too long."""

    def bounded(*args: Any, **kwargs: Any) -> Any:
        if name == "join" and args and not isinstance(args[0], (list, tuple, str)):
            args = (list(args[0]), *args[1:])
        try:
            size = _SIZES[name](text, *args, **kwargs)
        except (TypeError, AttributeError):
            size = 0  # the method itself says what is wrong
        limits.check_size(size)
        return method(*args, **kwargs)

    return bounded


def check_field(spec: str) -> None:
    """Refuses a format such as ``%1000000000d``, of which the limits on texts hear too late."""
    if _WIDE_FIELD.search(spec):
        raise TokenizerError(f"It formats a field of width {spec!r}; widths of five digits and more are not allowed.")


def check_widths(values: Iterable[Any]) -> None:
    """Refuses numbers that are too large for a width, an indent or a count of columns."""
    for value in values:
        if isinstance(value, int) and value > _MAX_WIDTH:
            raise TokenizerError(f"It asks for a width of {value:,}, more than the {_MAX_WIDTH:,} that are allowed.")


def check_product(limits: Limits, left: Any, right: Any) -> None:
    """Refuses ``left * right`` where it is too long a text or list, or too large a number."""
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())
        return
    for value, count in ((left, right), (right, left)):
        if isinstance(count, int) and isinstance(value, (str, list, tuple)):
            limits.check_size(len(value) * count)


def check_power(left: Any, right: Any) -> None:
    """Refuses ``left ** right`` where it is too large a number."""
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() * right)


def check_percent(limits: Limits, template: str, values: Any) -> None:
    """Refuses ``template % values`` where it is too long a text."""
    for spec in re.findall(r"%(?:\([^)]*\))?([^a-zA-Z%]*)", template):
        check_field(spec)
    items = values if isinstance(values, tuple) else values.values() if isinstance(values, Mapping) else (values,)
    limits.check_size(len(template) + template.count("%") * _longest(items))


def _check_bits(bits: int) -> None:
    if bits > _MAX_BITS:
        raise TokenizerError(f"It makes a number of {bits:,} bits, more than the {_MAX_BITS:,} that are allowed.")
