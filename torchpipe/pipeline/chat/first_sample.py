"""The line about a processor's first sample, which is printed once, though several processes make samples."""

import mmap
from collections.abc import Callable

from torch.utils.data import get_worker_info

from torchpipe._progress import say


class FirstSample:
    """Prints a line the first time that it is asked to.

    Processes that are forked from the one that made it share the note that it was printed; one that it is sent to knows
    whether it was by then. Of the workers of a ``DataLoader`` only the first prints.

    >>> first = FirstSample()
    >>> first.tell(lambda: "a line on standard error"), first.is_told
    (None, True)
    """

    def __init__(self) -> None:
        self._note = mmap.mmap(-1, 1)

    @property
    def is_told(self) -> bool:
        """Whether it was printed."""
        return self._note[0] == 1

    def tell(self, line: Callable[[], str]) -> None:
        """Prints the line, unless one was printed before.

        Args:
            line: makes it, where it is printed.
        """
        if self.is_told:
            return
        self._note[0] = 1
        worker = get_worker_info()
        if worker is None or worker.id == 0:
            say(line())

    def __getstate__(self) -> dict[str, bool]:
        return {"is_told": self.is_told}

    def __setstate__(self, state: dict[str, bool]) -> None:
        self._note = mmap.mmap(-1, 1)
        self._note[0] = state["is_told"]
