"""Text files: what a row is, and that its bytes are those of the file."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.errors import ConfigError, MalformedRow, SourceError
from torchpipe.sources import TextRows, load_rows

ODD = "one\r\n\r\ntwo\ttabs\x00\u2028more\x0b\x0c\x85\rsame line\n\n\n  \nlast"


def texts(source: Any, **options: Any) -> list[str]:
    rows = load_rows(source, split="train", **options)
    return [rows[index]["text"] for index in range(len(rows))]


@pytest.fixture
def odd(tmp_path: Path) -> str:
    (tmp_path / "odd.txt").write_bytes(b"\xef\xbb\xbf" + ODD.encode())
    return str(tmp_path / "odd.txt")


def test_a_line_ends_at_a_newline_and_nowhere_else(odd: str) -> None:
    assert texts(odd) == ["one", "", "two\ttabs\x00\u2028more\x0b\x0c\x85\rsame line", "", "", "  ", "last"]
    assert "".join(texts(odd, keep_linebreaks=True)) == ODD


def test_a_document_a_file_is_all_of_its_bytes(odd: str, tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# Title\n")
    assert texts(odd, sample_by="document") == [ODD]
    assert texts("text", data_files=str(tmp_path), sample_by="document") == ["# Title\n", ODD]


def test_paragraphs_stand_between_empty_lines(odd: str) -> None:
    assert texts(odd, sample_by="paragraph") == ["one", "two\ttabs\x00\u2028more\x0b\x0c\x85\rsame line", "  \nlast"]


@given(st.text(st.characters(codec="utf-8"), max_size=40), st.sampled_from(["\n", "\r\n"]))
def test_lines_and_documents_give_every_byte_back(
    tmp_path_factory: pytest.TempPathFactory, text: str, end: str
) -> None:
    file = tmp_path_factory.mktemp("text") / "a.txt"
    content = f"x{text}{end}y{end}"
    file.write_bytes(content.encode())
    assert "".join(texts(str(file), keep_linebreaks=True)) == content
    assert texts(str(file), sample_by="document") == [content]


def test_a_line_that_is_no_utf_8_is_one_row(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"good\ncaf\xe9\nalso good")
    rows = TextRows([tmp_path / "a.txt"])
    assert [rows[0], rows[2]] == [{"text": "good"}, {"text": "also good"}]
    with pytest.raises(MalformedRow, match=r"a\.txt, line 2 is not UTF-8 .* \(byte 8 of the file\)\. Save the file"):
        rows[1]


def test_what_a_row_is_may_be_misspelt(odd: str, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="sample_by is 'lines'. It is one of 'line', 'paragraph', 'document'. Did you"
    ):
        texts(odd, sample_by="lines")
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(SourceError, match=r"empty\.txt is empty"):
        texts(str(tmp_path / "empty.txt"))


def test_another_encoding_is_read_by_load_dataset(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("café\n".encode("latin-1"))
    assert texts("text", data_files=str(tmp_path / "a.txt"), encoding="latin-1") == ["café"]
