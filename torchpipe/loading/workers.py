"""How a loader's worker process starts."""

import multiprocessing
import signal
from multiprocessing.context import BaseContext

import torch.distributed as dist


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
