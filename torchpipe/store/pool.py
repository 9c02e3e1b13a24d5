"""Shards made by several processes, which die with this one and never hold its lock."""

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkContext, SpawnContext
from pathlib import Path
from typing import Any

from torchpipe.errors import StoreError
from torchpipe.store.lock import let_go_of_lock
from torchpipe.store.shard_maker import ShardMaker, ShardWriter, as_sent

_SECONDS_BETWEEN_LOOKS = 0.2

_PR_SET_PDEATHSIG = 1
"""From linux/prctl.h; see prctl(2)."""


def make_shards(
    maker: ShardMaker, shards: Sequence[int], *, num_proc: int, lock: Path, advance: Callable[[int], None]
) -> Generator[int]:
    """Makes shards, and yields the number of each as it is finished; the first ones are begun first.

    Args:
        maker: what each process makes shards with.
        shards: their numbers, ascending.
        num_proc: processes; 1 makes them in this one.
        lock: the lock file that this process holds.
        advance: told how many more rows are done.

    Raises:
        Exception: the error of the first row that has one, the same for any number of processes. Shards with later
            rows that are not finished by then are given up.
        StoreError: a shard can't be written, or a process was killed.
    """
    if num_proc == 1:
        with ShardWriter(maker.folder) as writer:
            for shard in shards:
                data = maker.samples_of(shard, advance)
                if (written := writer.finished()) is not None:
                    yield written
                writer.begin(shard, data)
            if (written := writer.finished()) is not None:
                yield written
        return
    context = process_context()
    rows = maker.rows  # opened once, here, where processes are forked
    if context.get_start_method() == "fork":
        rows.prepare()
    workers = [_Worker(context, maker, lock) for _ in range(num_proc)]
    waiting = deque(shards)
    failed: tuple[int, int | None, bytes] | None = None
    try:
        for worker in workers:
            worker.give(waiting)
        while busy := [worker for worker in workers if worker.is_needed(failed)]:
            for ready in wait([worker.connection for worker in busy]):
                worker = next(worker for worker in busy if worker.connection is ready)
                kind, value = worker.received(maker)
                if kind == "rows":
                    advance(value)
                elif kind == "warned":
                    _warn(*value)
                elif kind == "made":
                    worker.give(waiting)
                elif kind == "written":
                    worker.shards.remove(value)
                    yield value
                else:
                    failed = value if failed is None else min(failed, value, key=lambda one: one[0])
                    worker.shards.remove(value[0])
                    waiting.clear()
        if failed is not None:
            raise maker.error_of(*failed[1:])
    finally:
        for worker in workers:
            worker.end()


def process_context() -> ForkContext | SpawnContext:
    """How processes are started: by forking on Linux, which hands the opened rows over as they are."""
    return multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


def start(process: Any) -> None:
    """Starts a process."""
    with warnings.catch_warnings():
        # Python warns of forks beside threads. What is run here takes no lock that such a thread could hold: threads of
        # torch are told off in the child, tokenizers take none.
        warnings.filterwarnings("ignore", message=".*use of fork.*", category=DeprecationWarning)
        process.start()


def as_child_of(parent: int, lock: Path) -> None:
    """Makes this new process one that ends when ``parent`` does, is not stopped by Ctrl-C, and holds no lock."""
    let_go_of_lock(lock)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    gc.freeze()  # what a forked process begins with is no garbage, and looking for some would copy the pages it is on
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)  # the threads of a forked process are gone, and its pool would wait for them


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    os._exit(1)


def _end_at_once_with(parent: int) -> None:
    """Has the system kill this process in the moment in which the thread that started it ends, where it can do so.

    The lock is free in that moment, and whoever takes it must not meet a process that still writes.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


class _Worker:
    """A process that makes shards, seen from the one that gives them.

    Attributes:
        connection: to it.
        shards: which it has: one that it makes, and the one before that it writes.
    """

    def __init__(self, context: Any, maker: ShardMaker, lock: Path) -> None:
        self.connection, theirs = context.Pipe()
        self.shards: list[int] = []
        self._process = context.Process(target=_serve, args=(theirs, maker, os.getpid(), lock), daemon=False)
        start(self._process)
        theirs.close()

    def give(self, waiting: deque[int]) -> None:
        """Gives the worker the next shard, or says that there is none."""
        shard = waiting.popleft() if waiting else None
        if shard is not None:
            self.shards.append(shard)
        with suppress(OSError):  # it is dead, which is found where its answer is read
            self.connection.send(shard)

    def is_needed(self, failed: tuple[int, int | None, bytes] | None) -> bool:
        """Whether what it makes is still wanted: after an error, only rows before it are."""
        return any(failed is None or shard < failed[0] for shard in self.shards)

    def received(self, maker: ShardMaker) -> tuple[str, Any]:
        """The next message.

        Raises:
            StoreError: the process is dead.
        """
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self._process.join()
            raise _died(self._process.exitcode, maker, self.shards) from None

    def end(self) -> None:
        """Ends the process, whatever it does."""
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self.connection.close()


def _died(exit_code: int | None, maker: ShardMaker, shards: Sequence[int]) -> StoreError:
    rows = maker.rows_of(shards[-1])
    how = f"was killed by signal {-exit_code}" if exit_code and exit_code < 0 else f"ended with code {exit_code}"
    often = ", as the system does where memory is short: a smaller num_proc needs less" if exit_code == -9 else ""
    return StoreError(
        f"A worker process {how} while it tokenised rows {rows.start} to {rows.stop - 1} of {maker.rows.name}{often}. "
        "Finished shards are kept; start again to go on from there."
    )


def _sent_through(connection: Connection) -> Callable[..., None]:
    """What shows a warning: the process that started this one does, so that several tell of one thing once."""
    show, thread = warnings.showwarning, threading.current_thread()

    def send(message: Warning | str, category: type[Warning], filename: str, lineno: int, *rest: Any) -> None:
        if threading.current_thread() is not thread:  # the connection is the first thread's
            return show(message, category, filename, lineno, *rest)
        known = next(
            one for one in category.__mro__ if one.__module__ == "builtins"
        )  # a class of the user's may be local
        return connection.send(("warned", (str(message), known, filename, lineno)))

    return send


_WARNED: dict[Any, Any] = {}
"""What was told of before, as each module has it for its own warnings."""


def _warn(message: str, category: type[Warning], filename: str, lineno: int) -> None:
    warnings.warn_explicit(message, category, filename, lineno, registry=_WARNED)


def _serve(connection: Connection, maker: ShardMaker, parent: int, lock: Path) -> None:
    """What a worker does: shards, until there are none, each written while the next one is made."""
    as_child_of(parent, lock)
    _end_at_once_with(parent)
    writer = ShardWriter(maker.folder)

    def advance(num_rows: int) -> None:
        connection.send(("rows", num_rows))

    warnings.showwarning = _sent_through(connection)
    while True:
        shard, data = connection.recv(), None
        if shard is not None:
            try:
                data = maker.samples_of(shard, advance)
            except Exception as error:
                connection.send(("failed", (shard, maker.row, as_sent(error))))
        try:
            if (written := writer.finished()) is not None:
                connection.send(("written", written))
        except Exception as error:
            connection.send(("failed", (writer.shard, None, as_sent(error))))
        if shard is None:
            return
        if data is not None:
            writer.begin(shard, data)
        connection.send(("made", shard))
