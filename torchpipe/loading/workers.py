"""How a loader's worker processes start and end."""

import multiprocessing
import signal
from collections.abc import Iterator
from multiprocessing.context import BaseContext
from multiprocessing.util import Finalize
from typing import Any

import torch.distributed as dist

from torchpipe.loading.at_exit import close_at_exit
from torchpipe.loading.parcel import out_of_parcel


def worker_context() -> BaseContext | None:
    """How worker processes are started: None is torch's way, a fork on Linux.

    Where ranks train together, a process is not forked: a thread of the process group may hold a lock of the
    interpreter at that moment, which the child then waits for without end (seen with CPython 3.11 and gloo). Workers
    come from a server process that has no such threads, and has imported torch once.
    """
    if (
        not (dist.is_available() and dist.is_initialized())
        or "forkserver" not in multiprocessing.get_all_start_methods()
    ):
        return None
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torchpipe.loading.loader"])
    return context


def start_worker(worker: int) -> None:
    """Lets SIGTERM pass: a launcher sends it to the whole process group, and the training process, which ends its step
    first, still needs its workers. They end when it closes the loader, or is gone.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


class FromWorkers(Iterator[Any]):
    """The batches of a ``DataLoader`` with workers, which end with :meth:`close`, when this object is dropped, and
    before the process ends.

    At its end a process waits for its workers, after a SIGTERM that they let pass (:func:`start_worker`). It must not
    find any, also where an error's traceback still holds the loader.

    Args:
        batches: the iterator of the ``DataLoader``.
    """

    def __init__(self, batches: Any) -> None:
        self._batches = batches
        self._end = Finalize(self, batches._shutdown_workers, exitpriority=10)  # torch has no other way
        close_at_exit(self)

    def __next__(self) -> Any:
        return out_of_parcel(next(self._batches))

    def close(self) -> None:
        """Ends the workers."""
        self._end()
