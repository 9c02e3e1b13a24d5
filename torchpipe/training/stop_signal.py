"""SIGTERM as a wish to end after the step at hand."""

import signal
import threading
from types import FrameType, TracebackType


class StopSignal:
    """A context manager in which SIGTERM sets ``asked`` instead of ending the process.

    What schedulers and torchrun send before they kill (torchrun 30 seconds before). Outside the main thread, where
    Python takes no signals, it changes nothing.

    >>> import os
    >>> with StopSignal() as stop:
    ...     os.kill(os.getpid(), signal.SIGTERM)
    ...     stop.asked
    True
    """

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> "StopSignal":
        self._installed = threading.current_thread() is threading.main_thread()
        if self._installed:
            self._before = signal.signal(signal.SIGTERM, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._installed:
            signal.signal(signal.SIGTERM, self._before)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
