"""Finds the control tokens that a rendered text spells, where the template and nobody else wrote them."""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

from torchpipe.errors import TokenizerError

Ranges = Sequence[tuple[int, int]]
"""Ranges of characters (start, stop), in order; ranges that touch count as one."""
Span = tuple[int, int, str, int]
"""A control token in a text: the characters that it takes, from start to stop, its own text, and its id."""

# Unicode's White_Space, which the `tokenizers` library strips by; str.isspace also counts U+001C to U+001F.
_WHITE_SPACE = r"[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
_SPACE_RUN = re.compile(_WHITE_SPACE + "*")
_WORD = re.compile(r"\w")


_LONG_RANGE = 512  # characters
_MOST_REMEMBERED = 4096


class TokenFlags(NamedTuple):
    """How an added token of a Hugging Face file takes its neighbours.

    Attributes:
        lstrip, rstrip: the white space before it, or after it, belongs to the token and has no ids of its own.
        single_word: it is no token where a letter, digit or underscore stands beside it.
    """

    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False

    @classmethod
    def of(cls, token: Mapping[str, Any]) -> "TokenFlags":
        """The flags of an added token as Hugging Face files write one; what it doesn't say is False."""
        return cls(*(bool(token.get(name)) for name in cls._fields))


PLAIN = TokenFlags()


class ControlMatch(NamedTuple):
    """A control token in a text: the characters that it takes, stripped white space included, and its id."""

    start: int
    stop: int
    token_id: int


class ControlMatcher:
    """Finds control tokens in a text, leftmost first, of those that start together the longest.

    A token is one only where all its characters are template text, or where its text is in ``allowed_special``; what
    a user's text spells, wholly or by leaning on the template's characters beside it, stays text. A token that is
    refused does not hide another one that begins inside it.

    Args:
        control_tokens: ids by text.
        allowed_special: control tokens that any text may spell.
        flags: how tokens take their neighbours, by text; tokens that aren't named take none. The white space that a
            token takes may be anybody's, as in the file's own tokenizer.

    Attributes:
        takes_neighbours: whether text that is not the template's can matter: there are flags, or tokens that any text
            may spell.

    Raises:
        TokenizerError: a control token is the empty text, or ``allowed_special`` names something else.

    >>> matcher = ControlMatcher({"<s>": 1, "<s>>": 2})
    >>> matcher.find("<s>hi<s><s>>", [(0, 3), (8, 11)])
    [ControlMatch(start=0, stop=3, token_id=1), ControlMatch(start=8, stop=11, token_id=1)]
    """

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"_pattern", "_shorter", "_known"})

    def __init__(
        self,
        control_tokens: Mapping[str, int],
        allowed_special: Collection[str] = (),
        flags: Mapping[str, TokenFlags] | None = None,
    ) -> None:
        flags = {} if flags is None else flags
        self.control_tokens = dict(control_tokens)
        self.allowed_special = frozenset(allowed_special)
        self.flags = {text: TokenFlags(*given) for text, given in flags.items() if TokenFlags(*given) != PLAIN}
        if "" in self.control_tokens:
            raise TokenizerError(f"Control token {self.control_tokens['']} has no text. Give it one, or leave it out.")
        unknown = [text for text in self.allowed_special if text not in self.control_tokens]
        if unknown:
            raise TokenizerError(
                f"allowed_special names {unknown[0]!r}, which is none of the {len(self.control_tokens)} control "
                "tokens. Give it an id in special_tokens, or leave it out."
            )
        self.takes_neighbours = bool(self.allowed_special or self.flags)
        self._pattern = _any_of(self.control_tokens)
        self._shorter = _prefixes(self.control_tokens)
        self._known: dict[str, list[Span]] = {}

    def __reduce__(self) -> "tuple[partial[ControlMatcher], tuple[()]]":
        return partial(ControlMatcher, self.control_tokens, self.allowed_special, self.flags), ()

    def find(self, text: str, template_ranges: Ranges, cuts: Iterable[int] = ()) -> list[ControlMatch]:
        """The control tokens of a text, in order, none over another.

        Args:
            text: the whole text.
            template_ranges: where the template's own characters stand in it.
            cuts: positions that no token lies across, nor takes white space from beyond.
        """
        return [
            ControlMatch(start, stop, token_id) for start, stop, _, token_id in self.spans(text, template_ranges, cuts)
        ]

    def spans(self, text: str, template_ranges: Ranges, cuts: Iterable[int] = ()) -> list[Span]:
        """What :meth:`find` gives, as plain tuples of start, stop, the token's text, and its id."""
        ends = stops(cuts, len(text))
        if self.takes_neighbours:
            template = _Template(template_ranges)
            parts = zip([0, *ends[:-1]], ends, strict=True)
            return [span for start, stop in parts for span in self._general(text, template, start, stop)]
        # Neither another's text nor a neighbour matters: each range of template text by itself.
        found: list[Span] = []
        known = self._known
        for start, stop in _joined(template_ranges) if len(ends) == 1 else _cut(template_ranges, ends):
            template = text[start:stop]
            spans = known.get(template)
            for begin, end, token, token_id in self._spelled_in(template) if spans is None else spans:
                found.append((start + begin, start + end, token, token_id))
        return found

    def _spelled_in(self, template: str) -> list[Span]:
        """The tokens in template text. What a template writes between two contents is remembered: all rows have it."""
        ids = self.control_tokens
        spans = [(*found.span(), found[0], ids[found[0]]) for found in self._pattern.finditer(template)]
        if len(template) <= _LONG_RANGE:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[template] = spans
        return spans

    def _general(self, text: str, template: "_Template", start: int, stop: int) -> Iterator[Span]:
        at = taken = start  # where to look on; where the token before ended
        while found := self._pattern.search(text, at, stop):
            begin = found.start()
            reach = template.reach(begin)
            for token in (found[0], *self._shorter.get(found[0], ())):
                end = begin + len(token)
                if end > reach and token not in self.allowed_special:
                    continue
                flags = self.flags.get(token)
                if flags is not None:
                    if flags.single_word and not _stands_alone(text, begin, end, start, stop):
                        continue
                    begin, end = _with_spaces(text, begin, end, taken, stop, flags)
                yield begin, end, token, self.control_tokens[token]
                at = taken = end
                break
            else:
                at = begin + 1


def stops(cuts: Iterable[int], length: int) -> list[int]:
    """Where the parts of a text end, in order: at cuts that leave something on both sides, and at its end."""
    return [*sorted({cut for cut in cuts if 0 < cut < length}), length] if cuts else [length]


class _Template:
    """Where template text reaches to."""

    def __init__(self, ranges: Ranges) -> None:
        joined = _joined(ranges)
        self._starts = [start for start, _ in joined]
        self._stops = [stop for _, stop in joined]

    def reach(self, position: int) -> int:
        """The end of the template text that ``position`` stands in; ``position`` itself where it is in none."""
        place = bisect_right(self._starts, position) - 1
        return max(self._stops[place], position) if place >= 0 else position


def _joined(ranges: Ranges) -> Ranges:
    """The ranges with those that touch as one, and without empty ones."""
    before = -1
    for start, stop in ranges:
        if not before < start < stop:
            break
        before = stop
    else:
        return ranges
    joined: list[tuple[int, int]] = []
    first = last = 0
    for start, stop in ranges:
        if start > last:
            if first < last:
                joined.append((first, last))
            first, last = start, stop
        elif stop > last:
            last = stop
    return [*joined, (first, last)] if first < last else joined


def _cut(ranges: Ranges, ends: Sequence[int]) -> Ranges:
    """The ranges, joined, and cut where parts of the text end."""
    joined = _joined(ranges)
    if len(ends) == 1:
        return joined
    cut: list[tuple[int, int]] = []
    place = 0
    for start, stop in joined:
        if start >= ends[-1]:
            break
        while ends[place] <= start:
            place += 1
        while ends[place] < min(stop, ends[-1]):
            cut.append((start, ends[place]))
            start = ends[place]
            place += 1
        cut.append((start, stop))
    return cut


def _stands_alone(text: str, begin: int, end: int, start: int, stop: int) -> bool:
    return not (
        (begin > start and _WORD.match(text, begin - 1, begin)) or (end < stop and _WORD.match(text, end, end + 1))
    )


def _with_spaces(text: str, begin: int, end: int, first: int, last: int, flags: TokenFlags) -> tuple[int, int]:
    """The token with the white space that it takes, from ``first`` on and before ``last``."""
    if flags.lstrip:
        while begin > first and _SPACE_RUN.match(text, begin - 1, begin)[0]:  # type: ignore[index]
            begin -= 1
    if flags.rstrip:
        end = _SPACE_RUN.match(text, end, last).end()  # type: ignore[union-attr]
    return begin, end


def _prefixes(tokens: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Of each token that has any: the other tokens that it begins with, the longest first."""
    shorter = {
        token: tuple(token[:length] for length in range(len(token) - 1, 0, -1) if token[:length] in tokens)
        for token in tokens
    }
    return {token: found for token, found in shorter.items() if found}


def _any_of(tokens: Collection[str]) -> re.Pattern[str]:
    """An expression that finds the leftmost token, and of those that start together the longest.

    It is a tree of what tokens have in common, so that a thousand of them cost no more than a few.
    """
    tree: dict = {}
    for token in tokens:
        node = tree
        for character in token:
            node = node.setdefault(character, {})
        node[""] = {}
    return re.compile(_expression(tree) if tree else r"(?!)")


def _expression(node: dict) -> str:
    """An expression of what may follow; longer tokens are tried first, as ``?`` is greedy."""
    spelled = ""
    while len(node) == 1:  # no group for what only one token goes on with
        (character, node), *_ = node.items()
        if character == "":
            return spelled
        spelled += re.escape(character)
    branches = "|".join(re.escape(key) + _expression(after) for key, after in node.items() if key != "")
    return f"{spelled}(?:{branches}){'?' if '' in node else ''}"
