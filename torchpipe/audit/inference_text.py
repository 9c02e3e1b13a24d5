"""A report on contexts as text, in colour or without, and as JSON."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from torchpipe.audit.explain_text import Line, colored
from torchpipe.audit.explain_words import LEGEND
from torchpipe.audit.inference import InferenceReport, RowContexts, TurnContext
from torchpipe.audit.pieces import Piece
from torchpipe.audit.visible import SEPARATOR, visible, width

SCHEMA = "torchpipe.inference/1"
_MOST_TOKENS = 24
_INDENT = 13
_NARROWEST = 40


def to_text(report: InferenceReport, *, color: bool = False, width: int = 100, max_tokens: int | None = None) -> str:
    """A line for each assistant turn; where the contexts differ, what each goes on with from there.

    Args:
        report: from :func:`torchpipe.audit.inference.compare_inference`.
        color: whether reply and contexts have colours; nothing is told by colour alone.
        width: columns to fill with tokens.
        max_tokens: tokens to show of each; the rest is counted. None: 24.
    """
    lines = _lines(report, max(width, _NARROWEST), _MOST_TOKENS if max_tokens is None else max_tokens)
    return colored(lines) if color else "\n".join("".join(text for _, text in line).rstrip() for line in lines)


def _lines(report: InferenceReport, columns: int, most: int) -> Iterator[Line]:
    source = visible(report.source or "data set", spaces=False)
    yield [("heading", f"{source}: each reply's context in training, and as a server feeds it")]
    yield [("quiet", LEGEND)]
    for row in report.rows:
        yield []
        yield [("heading", _row_line(row))]
        if row.refused:
            yield [("note", f"refused: {visible(row.refused, spaces=False)}")]
        for turn in row.turns:
            yield from _turn_lines(turn, columns, most)


def _row_line(row: RowContexts) -> str:
    told = f"row {row.sample}" if row.index == row.sample else f"row {row.index}, sample {row.sample}"
    told += f", {row.side}" if row.side else ""
    if row.refused:
        return f"{told}: refused"
    num_other = sum(not turn.same for turn in row.turns)
    turns = "1 assistant turn" if len(row.turns) == 1 else f"{len(row.turns)} assistant turns"
    return f"{told}: {turns}, {f'{num_other} with another context' if num_other else 'all contexts the same'}"


def _turn_lines(turn: TurnContext, columns: int, most: int) -> Iterator[Line]:
    proof = f", proof {turn.proof}" if turn.proof not in ("", "none") else ""
    told = f"  message {turn.message}: "
    if turn.fault:
        yield [("note", f"{told}{visible(turn.fault, spaces=False)}")]
    elif turn.same:
        yield [("", f"{told}same, {turn.num_fed:,} tokens{proof}")]
    else:
        yield [("note", f"{told}differs at token {turn.differs_at}{proof}{_where(turn)}")]
    if turn.unproved:
        yield [("note", f"    unproved: {visible(turn.unproved, spaces=False)}")]
    if turn.differs_at is None:
        return
    yield from _token_lines("row", "masked", turn.row_context, columns, most)
    yield from _token_lines("sampled", "trained", turn.sampled, columns, most)
    yield from _token_lines("server", "masked", turn.server_context, columns, most)
    if turn.same_text:
        yield [("note", "    the texts are the same; the server cuts them into other tokens")]
    if turn.option:
        name, value = turn.option
        yield [("note", f"    the same with {visible(name)}={str(value).lower()}")]


def _where(turn: TurnContext) -> str:
    if turn.differs_in is None:
        return f", where the row's context ends (the server feeds {turn.num_fed:,} tokens)"
    if turn.differs_at == turn.num_fed:
        return f", where the server's prompt ends (the row's context has {turn.num_trained_on:,} tokens)"
    return f", in message {turn.differs_in}" if turn.differs_in >= 0 else ", outside of messages"


def _token_lines(name: str, style: str, pieces: Sequence[Piece], columns: int, most: int) -> Iterator[Line]:
    """The tokens under a name, wrapped between two tokens."""
    if not pieces:
        yield [("quiet", f"    {name:<7}  "), ("quiet", "(ends here)")]
        return
    lines: list[list[str]] = [[]]
    used = 0
    for piece in pieces[:most]:
        size = width(piece.shown) + 1
        if lines[-1] and used + size > columns - _INDENT:
            lines.append([])
            used = 0
        lines[-1].append(piece.shown)
        used += size
    for number, shown in enumerate(lines):
        yield [("quiet", f"    {'' if number else name:<7}  "), (style, SEPARATOR.join(shown))]
    if len(pieces) > most:
        yield [("note", f"{'':{_INDENT}}... {len(pieces) - most:,} tokens more")]


def to_dict(report: InferenceReport) -> dict[str, Any]:
    """The report as plain values. Texts are raw: they may hold control characters."""
    return {"schema": SCHEMA, "source": report.source, "rows": [_row(row) for row in report.rows]}


def to_json(report: InferenceReport, *, indent: int | None = None) -> str:
    """The same as one JSON text of printable ASCII."""
    return json.dumps(to_dict(report), ensure_ascii=True, indent=indent).replace("\x7f", "\\u007f")


def _row(row: RowContexts) -> dict[str, Any]:
    return {
        "row": row.index,
        "sample": row.sample,
        "side": row.side or None,
        "source": row.source,
        "refused": row.refused,
        "turns": [_turn(turn) for turn in row.turns],
    }


def _turn(turn: TurnContext) -> dict[str, Any]:
    return {
        "message": turn.message,
        "same": turn.same,
        "proof": turn.proof,
        "unproved": turn.unproved,
        "fault": turn.fault,
        "num_trained_on": turn.num_trained_on,
        "num_fed": turn.num_fed,
        "differs_at": turn.differs_at,
        "differs_in": turn.differs_in,
        "same_text": turn.same_text,
        "option": None if turn.option is None else dict([turn.option]),
        "row_context": [piece.text for piece in turn.row_context],
        "sampled": [piece.text for piece in turn.sampled],
        "server_context": [piece.text for piece in turn.server_context],
    }
