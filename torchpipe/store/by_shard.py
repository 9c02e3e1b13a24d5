"""A store that is used while it is built: its finished shards, in order."""

import atexit
import os
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from torchpipe.errors import StoreError
from torchpipe.store.build_site import SHARD_ROWS, BuildSite, opened
from torchpipe.store.in_use import lock_file
from torchpipe.store.lock import POLL_SECONDS, is_locked, progress_of, read_num_rows
from torchpipe.store.manifest import shard_folder
from torchpipe.store.pool import as_child_of, process_context, start
from torchpipe.store.rows import StoreRecipe
from torchpipe.store.shard import SHARD_JSON
from torchpipe.store.shard_maker import as_sent
from torchpipe.store.token_store import TokenStore

_SECONDS_FOR_THE_FIRST_RANK = 5.0


class GrowingStore:
    """The shards of a store, each as a :class:`~torchpipe.store.TokenStore` of its own, as soon as it is finished.

    A process in the background builds the store if no other does. It ends with this one; what it has finished is kept.
    Every rank may make one of these: one of them builds, the first rank of a machine if it comes in time.

    Args:
        recipe: of the samples.
        cache_dir, num_proc, shard_rows: as for :func:`~torchpipe.store.build.build_store`.

    Attributes:
        folder: of the store.
        name: what messages call the source.
        key: what the store is made of; None: it is temporary.

    Raises:
        ConfigError: num_proc or shard_rows is not possible.
        StoreError: when a shard is waited for: the store can't be written, or the builder was killed.
        Exception: when a shard is waited for: the builder's error, such as that of a bad row.
    """

    def __init__(
        self,
        recipe: StoreRecipe,
        *,
        cache_dir: str | Path | None = None,
        num_proc: int | None = None,
        shard_rows: int = SHARD_ROWS,
    ) -> None:
        site = BuildSite.of(recipe, cache_dir=cache_dir, num_proc=num_proc, shard_rows=shard_rows)
        self.folder = site.folder
        self.name = recipe.name
        self.key = site.key
        self._site = site
        self._builder: _Builder | None = None
        self._begun = time.monotonic()
        if not site.is_published and self._is_first_rank:
            self._build_if_nobody_does()

    @property
    def is_published(self) -> bool:
        """Whether the whole store is finished."""
        return self._site.is_published

    @property
    def num_shards(self) -> int:
        """Shards of the whole store; waits until it is known."""
        num_rows, shard_rows = self._facts()
        return -(-num_rows // shard_rows)

    @property
    def num_rows(self) -> int:
        """Rows of the source; waits until it is known."""
        return self._facts()[0]

    def shard(self, number: int) -> TokenStore:
        """One shard, whose samples are counted from 0; waits until it is finished.

        Raises:
            IndexError: there is none of that number.
        """
        if not 0 <= number < self.num_shards:
            raise IndexError(f"Shard {number} was asked for, and the store of {self.name} has {self.num_shards}.")
        self.wait_until(lambda: self.has_shard(number))
        return TokenStore.open_shards(self.folder, [number], verify="lazy")

    def has_shard(self, number: int) -> bool:
        """Whether a shard is finished."""
        return (shard_folder(self.folder, number) / SHARD_JSON).exists()

    def wait_until(self, is_there: Callable[[], bool], *, stop: Callable[[], bool] = lambda: False) -> bool:
        """Returns when ``is_there()`` is true, which the builder has to bring about; what it raises is raised here.

        Args:
            stop: looked at several times a second; once it is true, the wait is over.

        Returns:
            Whether ``is_there()`` was true before ``stop()``.
        """
        if is_there():
            return True
        with progress_of(self.folder, self.name) as look:
            while not is_there():
                if stop():
                    return False
                look()
                try:
                    self._wait_a_moment(is_there)
                except Exception:
                    if stop():  # a signal to the whole process group has ended the builder too
                        return False
                    raise
        return True

    def __iter__(self) -> Iterator[TokenStore]:
        """All shards in order. At the end the whole store is waited for, so that what refuses it is raised."""
        for number in range(self.num_shards):
            yield self.shard(number)
        self.whole()

    def whole(self) -> TokenStore:
        """The finished store; waits for it."""
        self.wait_until(lambda: self.is_published)
        return opened(self._site)

    def close(self) -> None:
        """Ends the process that builds, if this object has started one."""
        if self._builder is not None:
            self._builder.end()

    def __enter__(self) -> "GrowingStore":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def _is_first_rank(self) -> bool:
        return os.environ.get("LOCAL_RANK", os.environ.get("RANK", "0")) == "0"

    def _facts(self) -> tuple[int, int]:
        """Rows of the source, and rows a shard."""
        facts: tuple[int, int] | None = None

        def are_there() -> bool:
            nonlocal facts
            facts = read_num_rows(self.folder)
            return facts is not None

        self.wait_until(are_there)
        assert facts is not None
        return facts

    def _build_if_nobody_does(self) -> None:
        if self._builder is None and not is_locked(self.folder):
            self._builder = _Builder(replace(self._site, quiet=True))

    def _wait_a_moment(self, is_there: Callable[[], bool]) -> None:
        if self._builder is not None:
            self._builder.check(is_there)
            return
        if self._is_first_rank or time.monotonic() - self._begun > _SECONDS_FOR_THE_FIRST_RANK:
            self._build_if_nobody_does()
        time.sleep(POLL_SECONDS)


class _Builder:
    """The process in the background."""

    def __init__(self, site: BuildSite) -> None:
        context = process_context()
        self._name = site.recipe.name
        self._connection, theirs = context.Pipe(duplex=False)
        self._process: Any = context.Process(target=_build, args=(site, theirs, os.getpid()), daemon=False)
        self._started_by = os.getpid()
        start(self._process)
        theirs.close()
        self._error: bytes | None = None
        # It would be waited for at exit: Python joins every process that may have children.
        atexit.register(self.end)

    def check(self, is_there: Callable[[], bool]) -> None:
        """Waits a moment.

        Raises:
            Exception: the builder's error, where it has ended without what is waited for.
        """
        if self._error is None and self._connection.poll(POLL_SECONDS):
            with suppress(EOFError, OSError):
                self._error = self._connection.recv_bytes()
            self._process.join()
        if self._error is None and self._process.exitcode is None:
            return
        if is_there():
            return
        if self._error is not None:
            raise pickle.loads(self._error)
        raise StoreError(
            f"The process that tokenises {self._name} ended with code {self._process.exitcode} before it was done. "
            "Finished shards are kept; start again to go on from there."
        )

    def end(self) -> None:
        """Ends it."""
        if os.getpid() != self._started_by:
            return
        atexit.unregister(self.end)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()


def _build(site: BuildSite, connection: Connection, parent: int) -> None:
    as_child_of(parent, lock_file(site.folder))
    try:
        site.build()
    except Exception as error:
        connection.send_bytes(as_sent(error))
    connection.close()
