"""An explanation as JSON. docs/explain.md describes the schema; a change of it is a new number."""

import json
from dataclasses import asdict
from typing import Any

from torchpipe.audit.explanation import DocumentView, Explanation, RowView, TokenView

SCHEMA = "torchpipe.explain/2"


def to_dict(explanation: Explanation) -> dict[str, Any]:
    """The explanation as plain values. Texts are raw: they may hold control characters."""
    return {
        "schema": SCHEMA,
        "source": explanation.source,
        "num_rows": explanation.num_rows,
        "decided_by": dict(explanation.decided_by),
        "notes": list(explanation.notes),
        "rows": [_row(row) for row in explanation.rows],
    }


def to_json(explanation: Explanation, *, indent: int | None = None) -> str:
    """The same as one JSON text of printable ASCII: other characters are escaped, so a terminal may show it."""
    # json leaves DEL as it is, which it takes for printable.
    return json.dumps(to_dict(explanation), ensure_ascii=True, indent=indent, default=str).replace("\x7f", "\\u007f")


def _row(row: RowView) -> dict[str, Any]:
    return {
        "row": row.index,
        "source": row.source,
        "refused": row.refused,
        "packed": row.packed,
        "item": "pack" if row.packed else row.noun,
        "desirable": row.desirable,
        "num_tokens": row.num_tokens,
        "num_trained": row.num_trained,
        "notes": list(row.notes),
        "documents": [_document(document) for document in row.documents],
    }


def _document(document: DocumentView) -> dict[str, Any]:
    messages = None
    if document.messages is not None:
        messages = [asdict(message) for message in document.messages]
    return {
        "sample": document.sample,
        "source": document.source,
        "start": document.start,
        "offset": document.offset,
        "side": document.side or None,
        "num_prompt": document.num_prompt,
        "num_shared": document.num_shared,
        "padding": document.padding,
        "num_tokens": document.num_tokens,
        "ends_with_target": document.ends_with_target,
        "num_trained": document.num_trained,
        "num_cut": document.num_cut,
        "cut_side": document.cut_side,
        "traced": document.traced,
        "notes": list(document.notes),
        "messages": messages,
        "tools": document.tools,
        "tokens": [_token(token) for token in document.tokens],
    }


def _token(token: TokenView) -> dict[str, Any]:
    return {
        "id": token.id,
        "text": token.piece.text,
        "shown": token.piece.shown,
        "bytes": None if token.piece.raw is None else token.piece.raw.hex(),
        "part_of": token.piece.part_of,
        "control": token.piece.control,
        "label": token.label,
        "trained": token.trained,
        "position": token.position,
        "kind": token.kind,
        "message": token.message,
        "part": token.part,
        "proof": token.proof,
        "start": token.start,
        "stop": token.stop,
        "reason": token.reason,
    }
