"""Text made safe to show: every character visible, none that moves a cursor, and no two texts look alike.

White space and what has no ink of its own is written with the marks below. A mark that the text itself holds is
written as its number, so what is shown always tells one text.
"""

import unicodedata

SEPARATOR = "│"
"""Between two tokens."""

WHITE_SPACE = {" ": "·", "\n": "↵", "\r": "␍", "\t": "⇥"}

_BASE = "◌"  # carries a mark that has no letter before it

MARKS = frozenset((*WHITE_SPACE.values(), SEPARATOR, _BASE, *"⟦⟧⟨⟩"))
"""What the display writes itself."""

_INVISIBLE_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
_NUMBERED = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"))
_ACCENTS = frozenset(("Mn", "Mc", "Me"))
_MOST_ACCENTS = 4
"""Marks on one letter; a taller stack would grow into the lines above."""


def visible(text: str, *, spaces: bool = True) -> str:
    """The text with every white space, control, format and other invisible character written out.

    Args:
        text: any text; it may hold anything.
        spaces: False leaves single spaces as they are, for running text.

    >>> visible("a b\\r\\n\\x1b[31m\\u202e")
    'a·b␍↵⟨U+001B⟩[31m⟨U+202E⟩'
    """
    if text.isascii() and text.isprintable():
        return text.replace(" ", "·") if spaces else text
    shown: list[str] = []
    accents = 0
    has_base = False
    for character in text:
        if character == " " and not spaces:
            shown.append(" ")
        elif character in WHITE_SPACE:
            shown.append(WHITE_SPACE[character])
        elif _has_no_ink(character):
            shown.append(number(character))
        elif unicodedata.category(character) in _ACCENTS:
            accents += 1
            if accents > _MOST_ACCENTS:
                shown.append(number(character))
            else:
                shown.append(character if has_base else _BASE + character)
                has_base = True
            continue
        else:
            shown.append(character)
            accents, has_base = 0, True
            continue
        accents, has_base = 0, False
    return "".join(shown)


def visible_bytes(data: bytes) -> str:
    """The same for bytes: whole characters as :func:`visible` writes them, the others as ⟨0xE3⟩.

    >>> visible_bytes("é ".encode() + b"\\xe3")
    'é·⟨0xE3⟩'
    """
    text = data.decode("utf-8", "surrogateescape")
    shown, start = [], 0
    for end, character in enumerate(text):
        if 0xDC80 <= ord(character) <= 0xDCFF:
            shown += [visible(text[start:end]), f"⟨0x{ord(character) - 0xDC00:02X}⟩"]
            start = end + 1
    return "".join(shown) + visible(text[start:])


def number(character: str) -> str:
    """A character by its number."""
    return f"⟨U+{ord(character):04X}⟩"


def _has_no_ink(character: str) -> bool:
    return (
        character in MARKS
        or character in _INVISIBLE_LETTERS
        or "\ufe00" <= character <= "\ufe0f"
        or "\U000e0100" <= character <= "\U000e01ef"
        or unicodedata.category(character) in _NUMBERED
    )


def width(shown: str) -> int:
    """Columns that a shown text takes on a terminal."""
    if shown.isascii():
        return len(shown)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in shown)
    return len(shown) + wide - sum(unicodedata.category(character) in ("Mn", "Me") for character in shown)
