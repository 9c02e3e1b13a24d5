"""The sentences of an explanation, which text and HTML share. Everything here is safe to print."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from torchpipe.audit.explanation import DocumentView, Explanation, MessageView, RowView, TokenView
from torchpipe.audit.visible import visible
from torchpipe.data.whole_row import Cut

LEGEND = (
    "· space, ↵ newline, ␍ carriage return, ⇥ tab, │ between tokens, ⟦ ⟧ control token, "
    "⟨ ⟩ a byte or an invisible character; a mark that the text itself holds is written as its number"
)


def source_line(explanation: Explanation) -> str:
    """Where the rows come from, and how many there are."""
    source = visible(explanation.source or "data set", spaces=False)
    what = "pack" if any(row.packed for row in explanation.rows) else "row"
    what += "" if explanation.num_rows == 1 else "s"
    return source if explanation.num_rows is None else f"{source}: {explanation.num_rows:,} {what}"


def decided_line(explanation: Explanation) -> str:
    """What decides which tokens are trained; what isn't known is left out."""
    return ", ".join(
        visible(f"{name} {value}", spaces=False) for name, value in explanation.decided_by.items() if value is not None
    )


def row_line(explanation: Explanation, row: RowView) -> str:
    """One row in numbers; of joined data sets, also whose it is."""
    told = f"{'pack' if row.packed else 'row'} {row.index}: {row.num_tokens:,} tokens, {row.num_trained:,} trained"
    if row.source is not None and row.source != explanation.source:
        number = "" if row.packed else f"row {row.documents[0].sample} "
        told = f"{told}, {number}of {visible(row.source, spaces=False)}"
    if not row.packed:
        return told
    num_padding = sum(len(document.tokens) for document in row.documents if document.padding)
    num_documents = sum(not document.padding for document in row.documents)
    plural = "" if num_documents == 1 else "s"
    return f"{told}, {num_documents} document{plural}, {num_padding:,} tokens of padding"


def document_line(row: RowView, place: int) -> str:
    """One document of a pack in numbers: which sample, which of its tokens, where, and at which positions."""
    document = row.documents[place]
    length = len(document.tokens)
    if document.padding:
        return f"padding: tokens {span(document.offset, length)} of the pack, not trained{_positions(document)}"
    told = f"document {place}"
    if document.sample is not None:
        told += f": sample {document.sample}"
        if document.start:
            told += f" from its token {document.start} on"
    told += f", {length:,} tokens, {document.num_trained:,} trained"
    return f"{told}; tokens {span(document.offset, length)} of the pack{_positions(document)}"


def cut_line(document: DocumentView) -> str | None:
    """What was cut, in a sentence; None where nothing was."""
    if not document.num_cut:
        return None
    where = {None: "", "turns": " with the oldest turns"}.get(document.cut_side, f" on the {document.cut_side}")
    return f"{document.num_cut:,} tokens were cut{where} to max_seq_len"


def cut_notes(sample: Mapping[str, Any]) -> Iterator[str]:
    """What else there is to say about a sample that is a part of its row."""
    cut: Cut = sample["cut"]
    if cut.side is None:
        yield f"tokens {span(cut.start, cut.stop - cut.start)} of a row that was split"
    if sample.get("lost_stop"):
        yield "the turn that was cut has lost its stop token, so the model is not taught to stop there"
    elif cut.stop_from is not None:
        yield "the turn that was cut keeps its stop token, in the last token's place"
    if num_images := sample.get("num_images_dropped"):
        yield f"{num_images} image{'s were' if num_images > 1 else ' was'} left out"


def span(first: int, length: int) -> str:
    """``first-last``, or the one number, or nothing.

    >>> span(4, 3), span(4, 1)
    ('4-6', '4')
    """
    return f"{first}-{first + length - 1}" if length > 1 else str(first) if length else "none"


def _positions(document: DocumentView) -> str:
    positions = [token.position for token in document.tokens]
    runs: list[tuple[int, int]] = []  # first, length
    for position in positions:
        if runs and position == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((position, 1))
    shown = ", ".join(span(*run) for run in runs[:3]) + (", ..." if len(runs) > 3 else "")
    return f", input_pos {shown}" if positions else ""


def message_line(index: int, message: MessageView) -> str:
    """Who speaks, and what the flags are."""
    flags = ["masked" if message.masked else "trained"]
    flags += ["call (ipython)"] * message.ipython + ["turn goes on (eot false)"] * (not message.eot)
    flags += [f"{message.num_images} image{'s' * (message.num_images > 1)}"] * (message.num_images > 0)
    return f"{index} {visible(message.role, spaces=False)}, {', '.join(flags)}"


def message_text(message: MessageView) -> list[str]:
    """The text, a line for each of its own; spaces show at a line's ends only."""
    lines = message.text.split("\n")
    shown = []
    for number, line in enumerate(lines):
        inner = line.strip(" ")
        before = len(line) - len(line.lstrip(" ")) if inner else len(line)
        after = len(line) - len(line.rstrip(" ")) if inner else 0
        end = "↵" if number < len(lines) - 1 else ""
        shown.append("·" * before + visible(inner, spaces=False) + "·" * after + end)
    return shown


def runs_of(document: DocumentView) -> Iterator[tuple[int, list[TokenView]]]:
    """The tokens in runs that share message, kind, image, and reason: the first one's place in the row, and they."""
    offset = document.offset
    for _, run in groupby(document.tokens, key=_sameness):
        tokens = list(run)
        yield offset, tokens
        offset += len(tokens)


def _sameness(token: TokenView) -> tuple[object, ...]:
    image = token.part if token.kind == "media" else None
    return token.trained, token.kind, token.message, image, token.reason


def run_words(document: DocumentView, token: TokenView) -> str:
    """Where a run's tokens come from and why they are or are not trained, as far as that is known."""
    parts = []
    if token.message is not None and token.message >= 0:
        role = document.messages[token.message].role if document.messages else ""
        speaker = f"message {token.message} ({visible(role, spaces=False)})"
        kind = (token.kind or "").replace("_", " ")
        if token.reason is not None and token.reason.startswith(kind):  # "header (mask_policy sampled)"
            return f"{speaker}, {visible(token.reason, spaces=False)}"
        parts.append(f"{speaker}, {kind} ({token.part})" if token.kind == "media" else f"{speaker}, {kind}")
    if token.reason is not None and not (token.trained and token.reason == "message trained"):
        parts.append(visible(token.reason, spaces=False))
    return ": ".join(parts)
