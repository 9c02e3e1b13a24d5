"""Rows of plain text files: their bytes, with nothing normalised."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

from torchpipe._suggest import did_you_mean, listed
from torchpipe.errors import ConfigError
from torchpipe.sources.file_rows import FileRows, after_bom, lines
from torchpipe.sources.row_bounds import RowBounds
from torchpipe.sources.source_file import SourceFile

SampleBy = Literal["line", "paragraph", "document"]
"""What of a text file is a row."""


class TextRows(FileRows):
    """The rows ``{"text": ...}`` of text files in UTF-8.

    Args:
        files: read in this order.
        sample_by: "line": a row a line, empty ones too; "paragraph": what stands between empty lines; "document": a
            row a file.
        keep_linebreaks: True: a line's row has its line end. A line ends with ``\\n`` or ``\\r\\n``; a ``\\r`` or a
            U+2028 within it is content. Within paragraphs and documents line ends are as they are written.

    Raises:
        ConfigError: ``sample_by`` is unknown.
        SourceError, MalformedRow: as :class:`~torchpipe.sources.file_rows.FileRows`.
    """

    can_be_read_ahead = True

    def __init__(
        self, files: Sequence[Path | SourceFile], *, sample_by: SampleBy = "line", keep_linebreaks: bool = False
    ) -> None:
        if sample_by not in (words := get_args(SampleBy)):
            raise ConfigError(
                f"sample_by is {sample_by!r}. It is one of {listed(words)}.{did_you_mean(sample_by, words)}"
            )
        self._sample_by = sample_by
        self._keep_linebreaks = keep_linebreaks
        super().__init__(files)

    def _bounds(self, number: int, opened: BinaryIO) -> RowBounds:
        return RowBounds.of(self._spans(opened))

    def _spans(self, opened: BinaryIO) -> Iterator[tuple[int, int]]:
        begin = after_bom(opened)
        if self._sample_by == "document":
            end = opened.seek(0, 2)
            if end > begin:
                yield begin, end
        elif self._sample_by == "line":
            for start, line in lines(opened, begin):
                yield start, start + len(line if self._keep_linebreaks else without_end(line))
        else:
            yield from _paragraphs(lines(opened, begin))

    def _parsed(self, number: int, start: int, raw: bytes) -> Mapping[str, Any]:
        return {"text": self.decoded(number, start, raw)}

    def fingerprint(self) -> str:
        """What tells these rows from others: what is a row, and the files."""
        return self._told_apart_by("text", self._sample_by, self._keep_linebreaks)


def without_end(line: bytes) -> bytes:
    """A line without its line end: ``\\n`` or ``\\r\\n``.

    >>> without_end(b"a\\r\\r\\n"), without_end(b"a\\r")
    (b'a\\r', b'a\\r')
    """
    return line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line


def _paragraphs(numbered: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, int]]:
    """The spans between empty lines, without the line end before one."""
    first, stop = None, 0
    for start, line in numbered:
        held = without_end(line)
        if held and first is None:
            first = start
        if held:
            stop = start + len(held)
        elif first is not None:
            yield first, stop
            first = None
    if first is not None:
        yield first, stop
