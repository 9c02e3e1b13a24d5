"""Errors on a terminal."""

import pytest

from torchpipe._sentences import print_error, printable
from torchpipe.errors import DataError

HOSTILE = "\x1b[31m\x9b1m\x07\u202e\u2066\ud800\x00"
ESCAPED = r"\x1b[31m\x9b1m\x07\u202e\u2066\ud800\x00"


def test_a_text_becomes_one_line_that_a_terminal_shows_as_it_is() -> None:
    assert printable(f"a\n b\t{HOSTILE}日本 é") == f"a b {ESCAPED}日本 é"


def test_an_error_and_its_notes_never_reach_the_terminal_raw(capsys: pytest.CaptureFixture[str]) -> None:
    error = DataError(f"No file {HOSTILE}.\rnone")
    error.add_note(f"While reading\n{HOSTILE}")
    print_error(error)
    assert capsys.readouterr().err == f"Error: No file {ESCAPED}.\\rnone\nWhile reading\n{ESCAPED}\n"
