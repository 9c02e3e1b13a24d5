"""The rows of a store that were left out for an error: as many as may be, and written to a file for people."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from torchpipe._publishing import beside
from torchpipe.data.ledger_summary import NUM_EXAMPLES, described_reasons
from torchpipe.data.row_policy import RowPolicy
from torchpipe.errors import ConfigError, DataError
from torchpipe.store.flat_samples import NUM_REFUSED, REFUSED_FILE
from torchpipe.store.publishing import TEMPORARY, writing
from torchpipe.store.shard import Shard
from torchpipe.store.token_store import TokenStore


class TooManyRefusedError(DataError):
    """One shard alone has more rows with errors than a row policy allows.

    Attributes:
        lines: those rows, up to the first that is one too many, as lines of JSON.
    """

    def __init__(self, *args: object, lines: bytes = b"") -> None:
        super().__init__(*args)
        self.lines = lines


def lines_of(shard: Shard) -> bytes:
    """The rows of a shard that were left out for an error, in order, as lines of JSON."""
    return shard.files[REFUSED_FILE].read(check=True).tobytes() if REFUSED_FILE in shard.files else b""


def num_refused(shard: Shard) -> int:
    """How many rows of a shard were left out for an error."""
    return shard.facts["counts"].get(NUM_REFUSED, 0)


def first_refused(store: TokenStore) -> str:
    """The end of a paragraph: the error of the first row that was left out for one; "" where none was."""
    first = first_error(store)
    return first and f" The first: {first}"


def first_error(store: TokenStore) -> str:
    """The error of the first row that was left out for one; "" where none was."""
    line = next(_decoded(map(lines_of, store.shards)), None)
    return "" if line is None else line["error"]


def check_share(store: TokenStore, policy: RowPolicy, name: str) -> None:
    """Refuses a store of which more rows were left out for an error than a policy allows.

    Raises:
        DataError: the sentence of :func:`too_many`.
    """
    if sum(map(num_refused, store.shards)) > policy.num_allowed(store.num_rows):
        raise too_many(map(lines_of, store.shards), policy, num_rows=store.num_rows, name=name)


def too_many(refused: Iterable[bytes], policy: RowPolicy, *, num_rows: int, name: str) -> DataError:
    """The error of more rows with errors than a policy allows: counts and first rows of each reason, up to the row that
    is one too many. It is the same however many processes made the rows' samples.

    Args:
        refused: lines of JSON, in the rows' order; there are more than allowed.
        policy: with the share.
        num_rows: of the source.
        name: what errors call it.
    """
    allowed = policy.num_allowed(num_rows)
    counts: dict[str, int] = {}
    examples: dict[str, list[int]] = {}
    first, last = "", 0
    for number, line in enumerate(_decoded(refused)):
        if number > allowed:
            break
        first, last = first or line["error"], line["row"]
        counts[line["reason"]] = counts.get(line["reason"], 0) + 1
        rows = examples.setdefault(line["reason"], [])
        rows += [last] if len(rows) < NUM_EXAMPLES else []
    rows = "row" if allowed == 0 else "rows"
    return DataError(
        f"{name}: up to row {last}, {allowed + 1:,} {rows} of {num_rows:,} can't be used, and "
        f"max_error_share={policy.max_error_share:g} allows {allowed:,}: "
        f"{'; '.join(described_reasons(counts, examples))}. The first: {first} Mend them, leave them out with a "
        "filter_fn, or raise max_error_share."
    )


def write_quarantine(store: TokenStore, path: str | Path, name: str) -> None:
    """Writes the rows of a store that were left out for an error to a file, whole or not at all: a JSON object a line,
    in the rows' order (see :meth:`~torchpipe.data.row_policy.Refused.line`).

    Raises:
        ConfigError: the file has rows of another source.
        StoreError: it can't be written.
    """
    path = Path(path)
    _refuse_other_source(path, name)
    temporary = beside(path, TEMPORARY)
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, "xb") as file:
                for shard in store.shards:
                    file.write(lines_of(shard))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()


def _refuse_other_source(path: Path, name: str) -> None:
    """Keeps two data sets from writing one file, of which the second would be left."""
    try:
        with open(path, "rb") as file:
            first = file.readline()
    except OSError:
        return  # there is none, or writing says what is wrong
    found: Any = None
    with suppress(ValueError):
        found = json.loads(first)
    if not first or (isinstance(found, dict) and found.get("source") == name):
        return
    raise ConfigError(
        f"quarantine_file {path} holds something else than rows of {name}: its first line is "
        f"{first[:60].decode(errors='replace')!r}. Give each data set a file of its own, or delete it."
    )


def _decoded(refused: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for lines in refused:
        for line in lines.splitlines():
            yield json.loads(line)
