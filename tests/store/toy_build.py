"""A recipe of rows that need no tokenizer, and a script that builds its store: python toy_build.py CACHE OPTIONS.

Run by tests in processes of their own, which are killed, raced and looked at from outside.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torchpipe.errors import DataError, NoFingerprint, SourceError
from torchpipe.store.build import build_store
from torchpipe.store.by_shard import GrowingStore
from torchpipe.store.rows import RowSamples


@dataclass(frozen=True, kw_only=True)
class ToyRecipe:
    """Rows of 0 to 2 samples each.

    Attributes:
        num_rows: of the source.
        seconds_a_row: how long a row takes.
        bad_rows: rows that raise.
        gate: a file; rows from 100 on wait until it is there.
        killed_at: the row at which the process that reads it is killed.
        keeps: False filters every row out.
        has_key: whether it can be told apart.
        vocab_size: of the tokenizer.
        extra: a field of the key.
    """

    num_rows: int = 300
    seconds_a_row: float = 0.0
    bad_rows: tuple[int, ...] = ()
    gate: str = ""
    killed_at: int | None = None
    keeps: bool = True
    has_key: bool = True
    vocab_size: int | None = 70_000
    extra: str = ""
    name: str = "toys"

    def key_fields(self) -> dict[str, str]:
        if not self.has_key:
            raise NoFingerprint("toys are made of the module random.")
        return {"source": self.name, "source.rows": str(self.num_rows), "extra": self.extra}

    def open(self) -> "ToyRows":
        return ToyRows(self)


class ToyRows(RowSamples):
    def __init__(self, recipe: ToyRecipe) -> None:
        self.recipe = recipe
        self.name, self.num_rows, self.vocab_size = recipe.name, recipe.num_rows, recipe.vocab_size

    def samples_of(self, row: int) -> Any:
        if self.recipe.seconds_a_row:
            time.sleep(self.recipe.seconds_a_row)
        while row >= 100 and self.recipe.gate and not os.path.exists(self.recipe.gate):
            time.sleep(0.01)
        if row in self.recipe.bad_rows:
            raise DataError(f"Row {row} of toys: it is bad.")
        if row == self.recipe.killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if not self.recipe.keeps or row % 11 == 10:
            return "filtered"
        if row % 17 == 16:
            return "too_long"
        return samples(row)

    def check(self, num_stored: int, num_filtered: int) -> None:
        if num_filtered == self.num_rows:
            raise SourceError(f"filter_fn kept none of the {self.num_rows} rows of toys.")


def samples(row: int) -> Sequence[Mapping[str, Any]]:
    """What a row that is kept gives: tokens that tell the row, or a row split in two."""
    tokens = [row * 7 % 65_000 + place for place in range(2 + row % 23)]
    mask = [place % 3 == row % 3 for place in range(len(tokens))]
    if row % 5:
        return [{"tokens": tokens, "mask": mask, "num_truncated": 4 * (row % 7 == 0)}]
    whole = [-100 if masked else token for token, masked in zip(tokens[1:], mask[1:], strict=True)] + [-100]
    parts = [part for part in (slice(0, 2), slice(2, None)) if tokens[part]]
    return [{"tokens": tokens[part], "labels": whole[part], "num_truncated": 1, "lost_stop": True} for part in parts]


def main() -> None:
    options = json.loads(sys.argv[2])
    build = {key: options.pop(key) for key in ("num_proc", "shard_rows") if key in options}
    grows = options.pop("grows", False)
    recipe = replace(ToyRecipe(), **{key: tuple(v) if isinstance(v, list) else v for key, v in options.items()})
    print("begins", flush=True)
    if grows:
        growing = GrowingStore(recipe, cache_dir=sys.argv[1], **build)
        print(growing.shard(0).digest, flush=True)
        time.sleep(600)
    store = build_store(recipe, cache_dir=sys.argv[1], **build)
    print(f"built {store.digest} {store.path}", flush=True)


if __name__ == "__main__":
    main()
