"""Where the items of a JSON list stand in its file, found with a window of the file in memory."""

import codecs
import json
from collections.abc import Iterator
from typing import BinaryIO

from torchpipe.errors import SourceError

_WINDOW = 2**20
"""Bytes that are read at once; an item that is longer is read until its end."""

_TAIL = 16
"""An error so near to a window's end may be one of the cut: no literal, number or escape is longer that is broken."""


class _Window:
    """The text of a file from about the item that is looked at, and where it stands.

    Attributes:
        text: what is held of the file.
        place: in it, of what is looked at.
        is_last: whether it goes on to the file's end.
    """

    def __init__(self, name: str, opened: BinaryIO, start: int, line: int) -> None:
        self.name = name
        self.text, self.place, self.is_last = "", 0, False
        self._opened = opened
        self._line = line  # of the text's beginning
        self._counted, self._offset = 0, start  # a place in the text, and the byte where it stands
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def more(self) -> None:
        """Forgets the text before the place, and reads at least as much again as is left."""
        self.offset(self.place)
        self._line += self.text.count("\n", 0, self.place)
        self.text, self.place, self._counted = self.text[self.place :], 0, 0
        raw = self._opened.read(max(_WINDOW, len(self.text)))
        self.is_last = not raw
        undecoded = self._decoder.getstate()[0] + raw
        try:
            self.text += self._decoder.decode(raw, final=self.is_last)
        except UnicodeDecodeError as error:
            line = self._line + self.text.count("\n") + undecoded.count(b"\n", 0, error.start)
            raise SourceError(
                f"{self.name}, line {line} is not UTF-8 ({error.reason}). Save the file as UTF-8."
            ) from None

    def offset(self, place: int) -> int:
        """The byte of the file at a place, which is not before the one that was asked for last."""
        self._offset += len(self.text[self._counted : place].encode())
        self._counted = place
        return self._offset

    def next_char(self) -> str:
        """The next character that is no space; empty at the file's end."""
        while True:
            while self.text[self.place : self.place + 1] in (" ", "\n", "\r", "\t"):
                self.place += 1
            if self.place < len(self.text) or self.is_last:
                return self.text[self.place : self.place + 1]
            self.more()

    def broken(self, what: str, place: int | None = None) -> SourceError:
        """The error of a list that can't be read on, at a place in the text."""
        place = self.place if place is None else place
        line = self._line + self.text.count("\n", 0, place)
        begin = self.text.rfind("\n", 0, place)
        at = f" at column {place - begin}" if begin >= 0 else ""
        return SourceError(
            f"{self.name}, line {line} is not valid JSON: {what}{at} (byte {self.offset(place):,} of the file). "
            "Correct that line. One broken item leaves open where the others are; of a file with an object a line "
            "(.jsonl) that line alone is lost."
        )


def bounds_in_list(name: str, opened: BinaryIO, start: int, *, line: int) -> Iterator[tuple[int, int]]:
    """Where each item of a list starts and stops, in bytes.

    Args:
        name: what messages call the file.
        opened: the file, placed at or before the list's bracket.
        start: the byte that it is placed at.
        line: the line of that byte, from 1.

    Raises:
        SourceError: it is not valid JSON; the sentence names line and byte.
    """
    window = _Window(name, opened, start, line)
    window.next_char()
    window.place += 1
    if window.next_char() == "]":
        window.place += 1
    else:
        yield from _items(window)
    if window.next_char():
        raise window.broken("there is more after the list's end")


def _items(window: _Window) -> Iterator[tuple[int, int]]:
    decoder = json.JSONDecoder()
    while True:
        window.next_char()
        end = _end_of_item(window, decoder)
        yield window.offset(window.place), window.offset(end)
        window.place = end
        after = window.next_char()
        window.place += 1
        if after == "]":
            return
        if after != ",":
            window.place -= 1
            raise window.broken("a ',' or the ']' that ends the list is missing")


def _end_of_item(window: _Window, decoder: json.JSONDecoder) -> int:
    """Where the item at the window's place ends; more is read until all of it is there."""
    while True:
        try:
            _, end = decoder.raw_decode(window.text, window.place)
        except json.JSONDecodeError as error:
            cut = error.msg.startswith("Unterminated string") or error.pos >= len(window.text) - _TAIL
            if window.is_last or not cut:
                raise window.broken(error.msg.removesuffix(" at"), error.pos) from None
        except RecursionError:
            raise window.broken("it nests deeper than can be read") from None
        except ValueError as error:  # a number of more digits than Python reads
            raise window.broken(str(error)) from None
        else:
            if end < len(window.text) or window.is_last:
                return end
        window.more()
