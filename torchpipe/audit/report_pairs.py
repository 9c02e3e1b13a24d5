"""What became of the rows of a data set of pairs, in the lines that a run prints before it trains."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torchpipe.audit.preview import preview
from torchpipe.audit.report_rows import report_rows
from torchpipe.data.ledger import SampleCounts
from torchpipe.data.pair_transform import SIDES
from torchpipe.datasets import side_of


def report_pairs(name: str, dataset: Any, *, check_rows: bool) -> SampleCounts | None:
    """The counts of both sides of a data set's pairs, after printing them as pairs; None where they are not known.

    Arguments and errors are those of :func:`~torchpipe.audit.report_rows`.
    """
    return report_rows(name, dataset, check_rows=check_rows, noun="pair")


def preview_pair(pair: Mapping[str, Any], decode: Callable[[Sequence[int]], str], *, max_tokens: int = 200) -> str:
    """Both sides of a pair as text, with what is trained marked; see :func:`~torchpipe.audit.preview`."""
    return "\n".join(f"{side}:\n{preview(side_of(pair, side), decode, max_tokens=max_tokens)}" for side in SIDES)
