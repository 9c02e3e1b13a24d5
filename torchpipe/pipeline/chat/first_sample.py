"""The line about a processor's first sample: once in a run of the program, though many processors are built of one
config, and several processes make samples."""

import ctypes
import multiprocessing
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from torch.utils.data import get_worker_info

from torchpipe._fingerprint import fingerprint
from torchpipe._progress import say
from torchpipe.errors import NoFingerprint
from torchpipe.store.source_recipe import vocab_size_of

_MOST = 256
"""Processors that are noted; of more, each process notes its own."""


class Notes:
    """What was told in this run of the program.

    Processes that are forked share it, and so do workers of any kind that it is sent to as they start
    (:func:`shared_notes`).
    """

    def __init__(self) -> None:
        self._shared: Any = multiprocessing.get_context().RawArray(ctypes.c_uint64, _MOST)
        self._own: set[int] = set()

    def __contains__(self, mark: int) -> bool:
        return mark in self._own or mark in self._shared[:]

    def add(self, mark: int) -> None:
        """Notes a mark: a whole number from 1 to 2**64 - 1."""
        self._own.add(mark)
        place = next((place for place, noted in enumerate(self._shared) if noted in (0, mark)), None)
        if place is not None:
            self._shared[place] = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return _taken, (self._shared,)


_notes = Notes()


def shared_notes() -> Notes:
    """This process's notes, for a worker that is about to start: where they arrive, they are that process's own."""
    return _notes


def _taken(shared: Any) -> Notes:
    _notes._shared = shared
    return _notes


class FirstSample:
    """Prints a line for the first sample that processors of one config make, in whatever loader, part and process.

    Of the workers of a ``DataLoader`` only the first prints, and of a machine's ranks. One that it is sent to without
    the notes (:class:`Notes`) knows whether it was printed by then.

    Args:
        config: of the processor.
        tokenizer: of its context; another class, or number of tokens, is another processor.

    >>> first = FirstSample("a config of the example", None)
    >>> first.tell(lambda: "a line on standard error"), first.is_told
    (None, True)
    >>> FirstSample("a config of the example", None).is_told
    True
    """

    def __init__(self, config: Any, tokenizer: Any) -> None:
        self._of = (config, tokenizer)
        self._mark = 0
        self._is_told = False

    @property
    def is_told(self) -> bool:
        """Whether it was printed."""
        return self._is_told or self._marked() in _notes

    def tell(self, line: Callable[[], str]) -> None:
        """Prints the line, unless one was printed before.

        Args:
            line: makes it, where it is printed.
        """
        if self._is_told:
            return
        was_told, self._is_told = self.is_told, True
        worker = get_worker_info()
        if not was_told and (worker is None or worker.id == 0):
            _notes.add(self._marked())
            say(line())

    def _marked(self) -> int:
        """What it is noted by."""
        if not self._mark:
            config, tokenizer = self._of
            try:
                told = fingerprint(config)
            except NoFingerprint:  # what it calls reads something from outside: it is told by where it lies
                told = str(id(config))
            text = repr([told, type(tokenizer).__qualname__, vocab_size_of(tokenizer)])
            self._mark = int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) or 1
        return self._mark

    def __getstate__(self) -> dict[str, Any]:
        return {"_of": (None, None), "_mark": self._marked(), "_is_told": self.is_told}
