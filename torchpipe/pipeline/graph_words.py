"""Errors and counts in the words of a graph's settings: what says them is shared with the builders of data sets."""

import re

from torchpipe.errors import TorchpipeError

# What a builder calls a setting, and what a graph does, in the order in which they are looked for. A name in quotes is
# a column's, or a part of a row.
_WORDS = [
    (r"left out by filter_fn", "left out by pre_filters or post_filters"),
    (r"(?:(?:an?|the) )?filter_fn\b", "pre_filters"),
    (r"(?:(?:an?|the) )?message[_ ]transform\b", "messages_fn"),
    (r"max_seq_len\b", "max_context_length"),
]
_PATTERNS = [(re.compile(rf"(?<![\w'\"]){pattern}(?!['\"])"), words) for pattern, words in _WORDS]
_PATTERNS.append((re.compile(r" \(chat_dataset: [^()]*\)"), ""))  # an option of that builder alone


def in_graph_words(text: str) -> str:
    """A text about a row or a source of a graph, with the names that a graph's settings have.

    >>> in_graph_words("It is null. Drop such rows with a filter_fn.")
    'It is null. Drop such rows with pre_filters.'
    """
    for pattern, words in _PATTERNS:
        text = pattern.sub(words, text)
    return text


def with_graph_words(error: TorchpipeError) -> TorchpipeError:
    """The error itself, whose sentence has the names that a graph's settings have."""
    if error.args:
        error.args = (in_graph_words(str(error)), *error.args[1:])
    return error
