"""A sample as text, with what is trained marked."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from torchpipe.audit.visible import visible
from torchpipe.constants import IGNORE_INDEX


def preview(sample: Mapping[str, Any], decode: Callable[[Sequence[int]], str], *, max_tokens: int = 400) -> str:
    """The sample's text in runs of trained and untrained tokens, one line a run.

    What is shown as trained is read from the labels, so it is what the loss will see. Line breaks and what is invisible
    are written out (:func:`~torchpipe.audit.visible.visible`). Of a packed sample the first document is shown.
    :func:`torchpipe.audit.explain` shows single tokens.

    Args:
        sample: ``tokens`` and ``labels``; ``seq_lens`` too if packed.
        decode: ids to text, control tokens included.
        max_tokens: tokens shown; the rest is counted.
    """
    tokens, trained = _first_document(sample)
    shown = min(len(tokens), max_tokens)
    lines: list[str] = []
    for is_trained, run in groupby(range(shown), key=trained.__getitem__):
        indices = list(run)
        text = visible(decode([tokens[i] for i in indices]), spaces=False)
        lines.append(f"{'  trained' if is_trained else 'untrained'} {len(indices):5d} | {text}")
    if shown < len(tokens):
        lines.append(f"          ... {len(tokens) - shown} tokens more")
    return "\n".join(lines)


def prompt_of(sample: Mapping[str, Any]) -> list[int]:
    """The tokens of a sample before the first trained one (of a packed sample: of its first document).

    Empty where nothing is trained, or already the second token is.
    """
    tokens, trained = _first_document(sample)
    return tokens[: trained.index(True)] if True in trained else []


def _first_document(sample: Mapping[str, Any]) -> tuple[list[int], list[bool]]:
    """Its tokens, and whether each is trained."""
    length = int(sample["seq_lens"][0]) if "seq_lens" in sample else len(sample["tokens"])
    tokens = [int(token) for token in sample["tokens"][:length]]
    labels = [int(label) for label in sample["labels"][:length]]
    # Token i is trained when it is the target of position i - 1; the first one is nobody's target.
    return tokens, [False, *(label != IGNORE_INDEX for label in labels[:-1])]
