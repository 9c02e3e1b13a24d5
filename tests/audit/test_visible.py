"""What is shown is safe, and tells one text only."""

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from torchpipe.audit.visible import WHITE_SPACE, visible, visible_bytes, width

ANY_TEXT = st.text(st.characters(codec=None), max_size=40)
BACK = {mark: character for character, mark in WHITE_SPACE.items()}


def read_back(shown: str) -> str:
    """The text that a display stands for."""
    plain = "".join(BACK.get(character, character) for character in shown).replace("◌", "")
    return re.sub(r"⟨U\+([0-9A-F]+)⟩", lambda found: chr(int(found[1], 16)), plain)


@given(ANY_TEXT)
@example("⟨U+001B⟩ · ↵ ◌ ⟦<|eot_id|>⟧ │")
@example("e" + "\u0301" * 9)
def test_the_text_can_be_read_back(text: str) -> None:
    assert read_back(visible(text)) == text


@given(ANY_TEXT)
def test_nothing_shown_controls_a_terminal_or_hides(text: str) -> None:
    for shown in (visible(text), visible(text, spaces=False)):
        kinds = {unicodedata.category(character) for character in shown if character != " "}
        assert not kinds & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a b", "a·b"),
        ("a\r\n\tb", "a␍↵⇥b"),
        ("\x1b[2J\x00\x7f\x9b", "⟨U+001B⟩[2J⟨U+0000⟩⟨U+007F⟩⟨U+009B⟩"),
        ("\u202egnp.exe\u2066", "⟨U+202E⟩gnp.exe⟨U+2066⟩"),
        ("a\u200bb\ufeff\u00ad", "a⟨U+200B⟩b⟨U+FEFF⟩⟨U+00AD⟩"),
        ("\u00a0\u2028\u3000", "⟨U+00A0⟩⟨U+2028⟩⟨U+3000⟩"),
        ("\U000e0041\ufe0f\u3164", "⟨U+E0041⟩⟨U+FE0F⟩⟨U+3164⟩"),
        ("\ud83d", "⟨U+D83D⟩"),
        ("l·l", "l⟨U+00B7⟩l"),
        ("\u0301e\u0301", "◌\u0301e\u0301"),
        ("日本 é ü", "日本·é·ü"),
        ("\ufffd", "\ufffd"),
    ],
)
def test_each_kind_of_character(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_stack_of_accents_does_not_grow_into_the_lines_above() -> None:
    assert visible("e" + "\u0301" * 100).count("\u0301") == 4


def test_bytes_that_are_no_character_are_numbered() -> None:
    assert visible_bytes("né\n".encode() + b"\xf0\x9f") == "né↵⟨0xF0⟩⟨0x9F⟩"
    assert visible_bytes(b"") == ""


def test_the_width_counts_columns() -> None:
    assert [width(text) for text in ("abc", "日本", "e\u0301", "🦙")] == [3, 4, 1, 2]
