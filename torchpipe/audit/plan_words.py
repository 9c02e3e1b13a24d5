"""Words that plans of data sets and of graphs have in common."""

from torchpipe.loading import Spread

UNDER = "\n" + " " * 11
"""Begins a line below what a line of a section tells."""


def spread_words(spread: Spread) -> str:
    """How even ranks are."""
    return f"the costliest rank costs {spread.worst:.3f} times the mean in the worst step, {spread.mean:.3f} on average"
