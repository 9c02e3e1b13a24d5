"""Ids of words that are encoded once and kept."""

import re
from collections.abc import Callable, Iterable, Sequence

MAX_WORDS, MAX_WORD = 65_536, 32
"""So many words of so few characters are kept, in about 15 MB; the others are encoded each time."""

_WORDS = re.compile(r"[ ▁]*[^ ▁]+|[ ▁]+")
_JOINS_WORDS = re.compile(r"[^▁\0]▁| ")


class WordCache(dict[str, Sequence[int]]):
    """A dict of words, each with the spaces before it, to their ids. It encodes texts by looking their words up.

    A word that it does not hold costs about as much as five words of a whole text; real texts repeat most of theirs.

    Args:
        encode: a word to its ids. The ids of a text must be those of its words, one after the other.
    """

    def __init__(self, encode: Callable[[str], Sequence[int]]) -> None:
        super().__init__()
        self._encode = encode

    def __missing__(self, word: str) -> Sequence[int]:
        ids = self._encode(word)
        if len(word) <= MAX_WORD and len(self) < MAX_WORDS:
            self[word] = tuple(ids)
        return ids

    def encode(self, text: str) -> list[int]:
        """Ids of ``text``, in a new list."""
        ids: list[int] = []
        for word in _WORDS.findall(text):
            ids += self[word]
        return ids


def are_within_words(pieces: Iterable[str]) -> bool:
    """Whether no piece holds the end of one word and the start of the next, so that no merge can join the two.

    >>> are_within_words(["▁", "▁▁a", "b"]), are_within_words(["▁", "a▁b"])
    (True, False)
    """
    held = list(pieces)
    return "▁" in held and _JOINS_WORDS.search("\0".join(held)) is None
