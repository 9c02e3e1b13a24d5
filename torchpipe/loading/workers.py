"""How a loader's worker process starts."""

import signal


def start_worker(worker: int) -> None:
    """Lets SIGTERM pass: a launcher sends it to the whole process group, and the training process, which ends its step
    first, still needs its workers. They end when it closes the loader, or is gone.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
