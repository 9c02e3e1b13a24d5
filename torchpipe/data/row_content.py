"""What a row holds, as a hash: equal where rows are equal, whatever file or process they were read in."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from torchpipe._fingerprint import fingerprint
from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.columns import refuse_no_row
from torchpipe.errors import ColumnError, NoFingerprint

DIGEST_BYTES = 16

CONTENT_VERSION = "2"
"""Goes up where equal rows have another hash than before, so that other rows are held out."""


def content_digest(row: Mapping[str, Any], columns: Sequence[str] | None = None) -> bytes:
    """The hash of a row's columns, 16 bytes: of their JSON with sorted keys, by BLAKE2b.

    The order of keys does not matter; every character of a text does. A column that is null, or a key in one at any
    depth, counts as one that is not there: Arrow can't tell the two apart, and gives every row the keys that any row
    has.

    Args:
        row: one row of a source.
        columns: which of its columns count; None: all.

    Raises:
        ColumnError: the row has no such column, is no dict, or holds a dict whose keys can't be sorted.
        NoFingerprint: a column holds an object that can't be told from others.

    >>> content_digest({"a": 1, "b": None}) == content_digest({"a": 1})
    True
    >>> content_digest({"a": [{"b": 1, "c": None}]}) == content_digest({"a": [{"b": 1}]})
    True
    >>> content_digest({"a": "x", "id": 1}, ["a"]) == content_digest({"a": "x", "id": 2}, ["a"])
    True
    """
    refuse_no_row(row)
    names = row if columns is None else columns
    for name in columns or ():
        if name not in row:
            raise ColumnError(f"The row has no column {name!r}; it has {listed(row)}.{did_you_mean(name, row)}")
    held = {name: row[name] for name in names if row[name] is not None}
    try:
        content = _as_json(held)
        if "null" in content:
            content = _as_json(_without_nulls(json.loads(content)))
    except TypeError as error:  # NoFingerprint is one too, and says more
        if isinstance(error, NoFingerprint):
            raise
        raise ColumnError(f"The row can't be compared: {error}. Keys of a dict are texts.") from error
    return hashlib.blake2b(content.encode(), digest_size=DIGEST_BYTES).digest()


def _as_json(held: Mapping[str, Any]) -> str:
    return json.dumps(held, sort_keys=True, separators=(",", ":"), default=_plain)


def _without_nulls(value: Any) -> Any:
    """The value without the keys that hold null. A null in a list has a place, and stays."""
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


def _plain(value: Any) -> Any:
    """What JSON has no form for, as something that it has one for."""
    if isinstance(value, Mapping):
        return dict(value)
    if callable(as_list := getattr(value, "tolist", None)):
        return as_list()
    return [type(value).__qualname__, fingerprint(value)]
