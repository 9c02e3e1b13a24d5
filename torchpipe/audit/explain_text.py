"""An explanation as text, in colour or without."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from torchpipe.audit.explain_words import (
    LEGEND,
    cut_line,
    decided_line,
    document_line,
    message_line,
    message_text,
    row_line,
    run_words,
    runs_of,
    shared_prompt_line,
    source_line,
    tools_line,
)
from torchpipe.audit.explanation import DocumentView, Explanation, MessageView, RowView, TokenView
from torchpipe.audit.visible import SEPARATOR, visible, width
from torchpipe.data.pair_transform import SIDES

# Style -> the codes that begin it (ECMA-48, "select graphic rendition").
STYLES = {
    "heading": "\x1b[1m",
    "trained": "\x1b[32m",
    "trained control": "\x1b[1;32m",
    "masked": "\x1b[90m",
    "masked control": "\x1b[1;90m",
    "note": "\x1b[33m",
    "quiet": "\x1b[2m",
    "": "",
}
_END = "\x1b[0m"
_INDENT = 9
_NARROWEST = 20

Line = list[tuple[str, str]]
"""Pieces of one line: style and text. The text alone is the line without colour."""


def to_text(
    explanation: Explanation,
    *,
    color: bool = False,
    labels: bool = False,
    width: int = 100,
    max_tokens: int | None = None,
) -> str:
    """Messages, and then each token under what it is and whether it is trained.

    Lines of tokens end between two tokens, never within one. A run of one and the same padding token is counted.
    Without its codes, coloured text is the plain text.

    Args:
        explanation: from :func:`torchpipe.audit.explain`.
        color: whether trained and masked tokens have colours; nothing is told by colour alone.
        labels: adds each token's id and label in lines below it, and its characters in the rendered text where they
            are told.
        width: columns to fill with tokens.
        max_tokens: tokens of a row to show; the rest is counted. None: all.
    """
    lines = _lines(explanation, labels, max(width, _NARROWEST + _INDENT), max_tokens)
    if not color:
        return "\n".join("".join(text for _, text in line).rstrip() for line in lines)
    return colored(lines)


def colored(lines: Iterable[Line]) -> str:
    """The lines with the codes of their styles."""
    return "\n".join(
        "".join(f"{STYLES[style]}{text}{_END}" if style else text for style, text in line) for line in lines
    )


def _lines(explanation: Explanation, labels: bool, columns: int, max_tokens: int | None) -> Iterator[Line]:
    yield [("heading", source_line(explanation))]
    if decided := decided_line(explanation):
        yield [("", f"decided by: {decided}")]
    yield from ([("note", f"note: {note}")] for note in explanation.notes)
    yield [("quiet", LEGEND)]
    for row in explanation.rows:
        yield []
        yield [("heading", row_line(explanation, row))]
        if row.refused:
            yield [("note", f"refused: {visible(row.refused, spaces=False)}")]
        yield from ([("note", f"note: {note}")] for note in row.notes)
        yield from _row_lines(row, labels, columns, max_tokens)


def _row_lines(row: RowView, labels: bool, columns: int, max_tokens: int | None) -> Iterator[Line]:
    shown = 0
    for place, document in enumerate(row.documents):
        yield from _heading_lines(row, place)
        if document.side == SIDES[1] and document.num_shared:
            yield [("masked", f"{document.offset:>6}  masked   {shared_prompt_line(document)}")]
            shown += document.num_shared
            document = _without_shared(document)
        if _is_uniform(document):
            token = document.tokens[0]
            yield [("masked", f"{'':{_INDENT}}{len(document.tokens):,} times {token.piece.shown}")]
            shown += len(document.tokens)
            continue
        for offset, run in runs_of(document):
            left = len(run) if max_tokens is None else max(0, max_tokens - shown)
            if not left:
                yield [("note", f"{'':{_INDENT}}... {row.num_shown - shown:,} tokens more")]
                return
            words = run_words(document, run)
            state = "trained" if run[0].trained else "masked"
            yield [(state, f"{offset:>6}  {f'{state:<7}  {words}' if words else state}")]
            yield from _token_lines(run[:left], labels, columns)
            shown += min(left, len(run))
    if shown < row.num_shown:
        yield [("note", f"{'':{_INDENT}}... {row.num_shown - shown:,} tokens more")]


def _heading_lines(row: RowView, place: int) -> Iterator[Line]:
    """What stands before the tokens of a document: of a pair, the messages of its prompt once, on the chosen side."""
    document = row.documents[place]
    messages = list(enumerate(document.messages or ()))
    prompt = messages[: document.num_prompt] if document.side else []
    if document.side != SIDES[1] and (tools := tools_line(document.tools)):
        yield [("", f"  {tools}")]
    if prompt and document.side == SIDES[0]:
        yield [("heading", "the prompt of both answers, never trained")]
        yield from _message_lines(prompt)
    if line := document_line(row, place):
        yield [("heading", line)]
    yield from ([("note", f"note: {note}")] for note in (cut_line(document), *document.notes) if note)
    yield from _message_lines(messages[len(prompt) :])


def _message_lines(messages: Iterable[tuple[int, MessageView]]) -> Iterator[Line]:
    for index, message in messages:
        yield [("", f"  {message_line(index, message)}")]
        for field, text in message_text(message):
            yield [("quiet", f"    {SEPARATOR} {f'{field}: ' if field else ''}"), ("", text)]


def _without_shared(document: DocumentView) -> DocumentView:
    number = document.num_shared
    return replace(document, tokens=document.tokens[number:], offset=document.offset + number)


def _is_uniform(document: DocumentView) -> bool:
    """Whether it is padding of one token, which a number tells as well."""
    return (
        document.padding and bool(document.tokens) and len({(token.id, token.label) for token in document.tokens}) == 1
    )


def _token_lines(tokens: Sequence[TokenView], labels: bool, columns: int) -> Iterator[Line]:
    cells = [(token, _cell_width(token, labels)) for token in tokens]
    while cells:
        used = count = 0
        while count < len(cells) and (not count or used + cells[count][1] + 1 <= columns - _INDENT):
            used += cells[count][1] + 1
            count += 1
        here, cells = cells[:count], cells[count:]
        yield _joined("", [(_style(token), token.piece.shown, size) for token, size in here], padded=labels)
        if labels:
            yield _joined("id", [("quiet", str(token.id), size) for token, size in here], padded=True)
            yield _joined("label", [("quiet", str(token.label), size) for token, size in here], padded=True)
        if labels and any(_characters(token) for token, _ in here):
            yield _joined("chars", [("quiet", _characters(token), size) for token, size in here], padded=True)
        if labels and cells:
            yield []


def _joined(name: str, cells: Sequence[tuple[str, str, int]], *, padded: bool) -> Line:
    line: Line = [("quiet", f"{name:>{_INDENT - 2}}  ")]
    for place, (style, text, size) in enumerate(cells):
        line += [("quiet", SEPARATOR)] * (place > 0)
        line.append((style, text))
        line += [("", " " * (size - width(text)))] * padded
    return line


def _cell_width(token: TokenView, labels: bool) -> int:
    shown = width(token.piece.shown)
    return max(shown, len(str(token.id)), len(str(token.label)), len(_characters(token))) if labels else shown


def _characters(token: TokenView) -> str:
    return "" if token.start is None else f"{token.start}:{token.stop}"


def _style(token: TokenView) -> str:
    return ("trained" if token.trained else "masked") + " control" * token.piece.control
