"""Where a store is built: under which key, in which folder, by how many processes."""

import multiprocessing
import shutil
import warnings
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count, takewhile
from pathlib import Path

from torchpipe._cores import num_cores
from torchpipe._progress import bar, say, tells
from torchpipe.errors import ConfigError, DataError, NoFingerprint, StoreError
from torchpipe.store.accounts import ledger_counts
from torchpipe.store.cache_dir import stores_folder
from torchpipe.store.in_use import lock_file
from torchpipe.store.key import StoreKey, what_changed
from torchpipe.store.lock import builder_lock, write_num_rows
from torchpipe.store.manifest import FORMAT, KEY_JSON, MANIFEST_JSON, publish_store, shard_folder
from torchpipe.store.pool import make_shards
from torchpipe.store.publishing import TEMPORARY, publish_json
from torchpipe.store.refused_rows import (
    TooManyRefusedError,
    check_share,
    lines_of,
    num_refused,
    too_many,
    write_quarantine,
)
from torchpipe.store.rows import StoreRecipe, policy_of
from torchpipe.store.shard import Shard, open_shard
from torchpipe.store.shard_maker import ShardMaker
from torchpipe.store.temporary import temporary_folder
from torchpipe.store.token_store import TokenStore

SHARD_ROWS = 4096
"""Rows a shard: about a second of one processor's work, so that many processors find enough of them, and a few hundred
shards for millions of rows."""


@dataclass(frozen=True, kw_only=True)
class BuildSite:
    """Where a store stands or is built.

    Attributes:
        recipe: of the samples.
        key: of the store; None: it is temporary.
        folder: of the store.
        num_proc: processes that tokenise.
        shard_rows: rows of the source a shard.
        quiet: True shows no progress: others show what they wait for.
    """

    recipe: StoreRecipe
    key: StoreKey | None
    folder: Path
    num_proc: int
    shard_rows: int
    quiet: bool = False

    @classmethod
    def of(
        cls, recipe: StoreRecipe, *, cache_dir: str | Path | None, num_proc: int | None, shard_rows: int
    ) -> "BuildSite":
        """The site of a recipe's store; the arguments are those of :func:`build_store`."""
        for name, value in (("num_proc", num_proc), ("shard_rows", shard_rows)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ConfigError(f"{name} is {value!r}. Give a whole number above 0.")
        stores = stores_folder(cache_dir)
        key = _key_or_warning(recipe, shard_rows)
        return cls(
            recipe=recipe,
            key=key,
            folder=temporary_folder(stores, recipe.name) if key is None else stores / key.digest,
            num_proc=num_proc or num_cores(),
            shard_rows=shard_rows,
        )

    @property
    def is_published(self) -> bool:
        """Whether the store is finished."""
        return (self.folder / MANIFEST_JSON).exists()

    @cached_property
    def maker(self) -> ShardMaker:
        """What makes its shards."""
        return ShardMaker(recipe=self.recipe, folder=self.folder, shard_rows=self.shard_rows)

    def build(self) -> None:
        """Builds and publishes the store, unless another process does, for which it waits."""
        with builder_lock(self.folder, self.recipe.name, quiet=self.quiet):
            if self.is_published:
                return
            if self.key is not None and (line := what_changed(self.key, self.folder.parent)):
                say(line)
            self._clear_leftovers()
            fields = {"source": self.recipe.name, "temporary": "true"} if self.key is None else dict(self.key.fields)
            publish_json(self.folder / KEY_JSON, fields)
            maker = self.maker
            write_num_rows(self.folder, num_rows=maker.rows.num_rows, shard_rows=self.shard_rows)
            self._make_shards(maker)
            self._publish(maker)

    def _clear_leftovers(self) -> None:
        """Removes what a builder or a process of one had begun to write when it was ended."""
        for leftover in [*self.folder.glob(f".*{TEMPORARY}"), *self.folder.glob(f"shards/.*{TEMPORARY}")]:
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)

    def _make_shards(self, maker: ShardMaker) -> None:
        missing = [shard for shard in range(maker.num_shards) if not self.is_finished(shard)]
        num_missing = sum(len(maker.rows_of(shard)) for shard in missing)
        num_proc = min(self.num_proc, len(missing))
        if multiprocessing.current_process().daemon:
            num_proc = 1  # such a process may start no others
        budget = _Budget(self, finished=set(range(maker.num_shards)) - set(missing))
        budget.check()
        if not missing:
            return
        with bar(0 if self.quiet else maker.rows.num_rows, f"Tokenising {maker.rows.name}") as advance:
            advance(maker.rows.num_rows - num_missing)
            made = make_shards(maker, missing, num_proc=num_proc, lock=lock_file(self.folder), advance=advance)
            try:
                with closing(made):
                    for shard in made:
                        budget.finished.add(shard)
                        budget.check()
            except TooManyRefusedError as error:
                raise budget.error(error.lines) from None
            finally:
                self._clear_leftovers()  # a process that is no longer needed is ended in the middle of a shard

    @property
    def num_refused_allowed(self) -> int:
        """Rows that may be left out for an error."""
        return policy_of(self.recipe).num_allowed(self.maker.rows.num_rows)

    def is_finished(self, shard: int) -> bool:
        """Whether a shard is on the disk, whole."""
        try:
            return open_shard(shard_folder(self.folder, shard)).row_range == self.maker.rows_of(shard)
        except StoreError:
            return False

    def _publish(self, maker: ShardMaker) -> None:
        shards = [open_shard(shard_folder(self.folder, shard)) for shard in range(maker.num_shards)]
        counts = ledger_counts(shards)
        maker.rows.check(num_stored=counts["stored"], num_filtered=counts.get("filtered", 0))
        if self.key is not None and key_of(self.recipe, self.shard_rows) != self.key:
            raise StoreError(
                f"{self.recipe.name} or what it is tokenised with changed meanwhile, so {self.folder} would hold some "
                "of both. Start again."
            )
        self._clear_leftovers()
        publish_store(self.folder, num_shards=maker.num_shards, ledger=counts)


class _Budget:
    """How many rows were left out for an error in the first shards, all of which are finished.

    Shards are finished in any order. Those that come before all unfinished ones are counted, so that the error is the
    same for any number of processes; the others are a few shards ahead at most.

    Attributes:
        finished: the numbers of all finished shards.
    """

    def __init__(self, site: BuildSite, *, finished: set[int]) -> None:
        self.finished = finished
        self._site = site
        self._num_counted = 0
        self._num_refused = 0

    def check(self) -> None:
        """Counts the shards that can be counted by now.

        Raises:
            DataError: more rows than allowed were left out for an error.
        """
        while self._num_counted in self.finished:
            self._num_refused += num_refused(self._shard(self._num_counted))
            self._num_counted += 1
            if self._num_refused > self._site.num_refused_allowed:
                raise self.error(b"")

    def error(self, more: bytes) -> DataError:
        """The error of too many such rows.

        Args:
            more: those after the counted shards, as lines of JSON.
        """
        is_finished = self._site.is_finished  # the last one may have been finished since it was looked at
        counted = (lines_of(self._shard(number)) for number in takewhile(is_finished, count()))
        rows = self._site.maker.rows
        return too_many(chain(counted, [more]), policy_of(self._site.recipe), num_rows=rows.num_rows, name=rows.name)

    def _shard(self, number: int) -> Shard:
        return open_shard(shard_folder(self._site.folder, number))


def key_of(recipe: StoreRecipe, shard_rows: int) -> StoreKey:
    """The key of a recipe's store.

    Raises:
        NoFingerprint: something in it has none.
    """
    return StoreKey(fields={**recipe.key_fields(), "format": str(FORMAT), "shard_rows": str(shard_rows)})


def opened(site: BuildSite) -> TokenStore:
    """The finished store of a site. What its recipe's row policy asks for holds for a store that was there, too.

    Raises:
        DataError: more rows can't be used than the policy allows.
        ConfigError, StoreError: the file of such rows can't be written.
    """
    store = TokenStore.open(site.folder, verify="lazy")
    policy = policy_of(site.recipe)
    if policy.leaves_out:
        check_share(store, policy, site.recipe.name)
    if policy.quarantine_file is not None:
        write_quarantine(store, policy.quarantine_file, site.recipe.name)
    return store


def _key_or_warning(recipe: StoreRecipe, shard_rows: int) -> StoreKey | None:
    """The key of a recipe's store; None, with a warning, where something in it has no fingerprint."""
    try:
        return key_of(recipe, shard_rows)
    except NoFingerprint as error:
        if tells():
            warnings.warn(
                f"{recipe.name} is tokenised for this run alone, since it can't be told whether the next one could use "
                f"it: {error}",
                stacklevel=4,
            )
        return None
