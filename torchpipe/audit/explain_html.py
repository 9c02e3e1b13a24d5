"""An explanation as HTML, for notebooks: no script, and nothing of a text is markup."""

from collections.abc import Iterator
from html import escape

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
    source_line,
    token_place,
    tools_line,
)
from torchpipe.audit.explanation import DocumentView, Explanation, TokenView
from torchpipe.audit.visible import visible

# Translucent grounds, so that light and dark pages both show the text.
_STYLE = """<style>
.torchpipe-explain { font-family: monospace; line-height: 1.7 }
.torchpipe-explain .token { unicode-bidi: isolate; white-space: pre-wrap; border-radius: 2px; margin-right: 2px }
.torchpipe-explain .trained { background: rgba(46, 160, 67, .3) }
.torchpipe-explain .masked { background: rgba(128, 128, 128, .18) }
.torchpipe-explain .control { font-weight: bold; border: 1px solid rgba(128, 128, 128, .6) }
.torchpipe-explain .quiet { opacity: .65 }
.torchpipe-explain .text { unicode-bidi: isolate; white-space: pre-wrap; margin-left: 2em }
</style>"""


def to_html(explanation: Explanation) -> str:
    """One ``div``. A token's id, label and reason show when the pointer rests on it."""
    return "\n".join([_STYLE, '<div class="torchpipe-explain">', *_parts(explanation), "</div>"])


def _parts(explanation: Explanation) -> Iterator[str]:
    yield _element("b", source_line(explanation))
    if decided := decided_line(explanation):
        yield _element("div", f"decided by: {decided}")
    yield from (_element("div", f"note: {note}") for note in explanation.notes)
    yield _element("div", LEGEND, "quiet")
    for row in explanation.rows:
        yield f"<hr>{_element('b', row_line(explanation, row))}"
        if row.refused:
            yield _element("div", f"refused: {visible(row.refused, spaces=False)}")
        yield from (_element("div", f"note: {note}") for note in row.notes)
        for place, document in enumerate(row.documents):
            if told := document_line(row, place):
                yield _element("div", told)
            yield from _document(document)


def _document(document: DocumentView) -> Iterator[str]:
    yield from (_element("div", f"note: {note}") for note in (cut_line(document), *document.notes) if note)
    if tools := tools_line(document.tools):
        yield _element("div", tools)
    if document.messages:
        yield "<details><summary>messages</summary>"
        for index, message in enumerate(document.messages):
            yield _element("div", message_line(index, message))
            lines = (f"{field}: {line}" if field else line for field, line in message_text(message))
            yield _element("div", "\n".join(lines), "text")
        yield "</details>"
    if document.padding:
        return
    yield "<div>"
    for _, run in runs_of(document):
        words = run_words(document, run)
        yield from (_token(token, words) for token in run)
    yield "</div>"


def _token(token: TokenView, words: str) -> str:
    state = "trained" if token.trained else "masked"
    told = f"id {token.id}, label {token.label}, position {token.position}, {state}{f': {words}' if words else ''}"
    told += f"; {place}" if (place := token_place(token)) else ""
    classes = f"token {state}{' control' * token.piece.control}"
    after = "<br>" if token.piece.text.endswith("\n") else ""
    return f'<span class="{classes}" title="{escape(told)}">{escape(token.piece.shown)}</span>{after}'


def _element(name: str, text: str, css_class: str = "") -> str:
    attribute = f' class="{css_class}"' if css_class else ""
    return f"<{name}{attribute}>{escape(text)}</{name}>"
