"""The warning that a graph leaves out much of what it is given, because it is too long."""

import warnings

LARGEST_SHARE = 0.1
"""Of rows or tokens: up to it, what is left out is counted in the ledger alone."""

_REMEDY = (
    "Raise max_context_length or num_tokens_per_batch, or set overflow to 'truncate' or 'split', which keep a part of "
    "each or all of it; what is dropped is counted in the loader's ledger."
)


def warn_of_too_long(
    name: str, *, rows: tuple[int, int], tokens: tuple[int, int] = (0, 0), stacklevel: int = 2
) -> bool:
    """Warns where more than a tenth of a node's rows or tokens is left out for its length; whether it did.

    Args:
        name: of the node, and of the source where the node has several.
        rows, tokens: how many were left out, and of how many.
        stacklevel: as of :func:`warnings.warn`, from here on.

    >>> warn_of_too_long("news", rows=(1, 10))
    False
    """
    counts = {"rows": rows, "tokens": tokens}
    shares = [(left_out / max(of, 1), left_out, of, what) for what, (left_out, of) in counts.items()]
    share, left_out, of, what = max(shares)
    if share <= LARGEST_SHARE:
        return False
    warnings.warn(
        f"{name}: {share:.0%} of the {what} are dropped, in documents that are too long: {left_out:,} of {of:,}. "
        + _REMEDY,
        stacklevel=stacklevel + 1,
    )
    return True
