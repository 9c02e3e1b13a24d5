"""What became of the rows of a node, under the same names whether the graph is planned or run by Grain."""

from collections.abc import Mapping
from typing import Any

from torchpipe._counted import counted
from torchpipe.data.ledger import REASONS


def account(
    *,
    rows_in: int,
    rows_out: int,
    rows_left_out: Mapping[str, int] | None = None,
    rows_split: int = 0,
    tokens_in: int = 0,
    tokens_out: int = 0,
    tokens_left_out: Mapping[str, int] | None = None,
    padding: int = 0,
) -> dict[str, Any]:
    """The counts of a node as plain values, by the names of its arguments; reasons only where they are not 0.

    Of a source ``rows_in`` is ``rows_out`` and all of ``rows_left_out``. Of packing, whose ``rows_out`` are packs,
    ``tokens_in`` is ``tokens_out`` and all of ``tokens_left_out``.

    Args:
        rows_in, rows_out: rows that it took, and gave.
        rows_left_out: rows that it took and gave nothing for, by reason: :data:`torchpipe.data.ledger.Reason`, or of
            packing ``too_long`` and ``over_cap`` (more documents, or pictures, than a row may have).
        rows_split: rows that became several documents, or several rows.
        tokens_in, tokens_out: tokens of those rows, where it packs; padding is not among them.
        tokens_left_out: tokens that it took and didn't give, by reason: those of rows that it left out, ``truncated``
            and ``last_row``.
        padding: tokens that it added.

    >>> account(rows_in=3, rows_out=2, rows_left_out={"filtered": 1, "too_long": 0})["rows_left_out"]
    {'filtered': 1}
    """
    return {
        "rows_in": rows_in,
        "rows_out": rows_out,
        "rows_left_out": _some(rows_left_out),
        "rows_split": rows_split,
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
        "tokens_left_out": _some(tokens_left_out),
        "padding": padding,
    }


def source_account(ledger: Mapping[str, int]) -> dict[str, Any]:
    """The :func:`account` of a source.

    Args:
        ledger: sizes of the sets of a store's ledger (:meth:`torchpipe.data.ledger.Ledger.as_counts`).

    >>> told = source_account({"read": 4, "stored": 3, "filtered": 1, "split": 2})
    >>> [told[name] for name in ("rows_in", "rows_out", "rows_left_out", "rows_split")]
    [4, 3, {'filtered': 1}, 2]
    """
    return account(
        rows_in=ledger["read"],
        rows_out=ledger["stored"],
        rows_left_out={reason: ledger.get(reason, 0) for reason in REASONS},
        rows_split=ledger.get("split", 0),
    )


def fill_of(counts: Mapping[str, Any]) -> float:
    """The part of a packing node's rows that holds tokens, 0 to 1; 0 where it gave none.

    Args:
        counts: an :func:`account`.
    """
    return counts["tokens_out"] / max(1, counts["tokens_out"] + counts["padding"])


def described_account(counts: Mapping[str, Any]) -> str:
    """One line: rows and tokens in and out, and how many each reason left out.

    Args:
        counts: an :func:`account`.

    >>> described_account(account(rows_in=3, rows_out=2, rows_left_out={"filtered": 1}))
    '3 rows in, 2 out; 1 filtered'
    """
    text = f"{counted(counts['rows_in'], 'row')} in, {counts['rows_out']:,} out"
    if counts["tokens_in"]:
        text += f"; {counted(counts['tokens_in'], 'token')} in, {counts['tokens_out']:,} out, "
        text += f"{counts['padding']:,} padding"
    for reason in sorted(counts["rows_left_out"].keys() | counts["tokens_left_out"].keys()):
        rows, tokens = counts["rows_left_out"].get(reason, 0), counts["tokens_left_out"].get(reason, 0)
        told = [f"{rows:,}"] if rows else []
        told += [counted(tokens, "token")] if tokens else []
        text += f"; {' ('.join(told)}{')' if len(told) == 2 else ''} {reason.replace('_', ' ')}"
    return f"{text}; {counts['rows_split']:,} split" if counts["rows_split"] else text


def _some(counts: Mapping[str, int] | None) -> dict[str, int]:
    return {reason: count for reason, count in (counts or {}).items() if count}
