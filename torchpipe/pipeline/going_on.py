"""Batches that go on behind an error."""

from collections.abc import Callable, Iterator

from torchpipe.loading.read_ahead import close
from torchpipe.pipeline.collators import TrainerBatch


class GoingOn(Iterator[TrainerBatch]):
    """Batches of a loader. Where there was an error, the next one asked for is the one that did not come.

    A generator has ended once it raised: who caught the error and iterates again would be given nothing, as if the rows
    had ended.

    Args:
        begin: gives the batches from behind the last one that was given out.

    >>> left = iter([[1], ["bad", 2]])
    >>> batches = GoingOn(lambda: (number + 0 for number in next(left)))
    >>> list(batches)
    [1]
    >>> batches = GoingOn(lambda: (number + 0 for number in next(left)))
    >>> try:
    ...     next(batches)
    ... except TypeError:
    ...     left = iter([[2]])
    >>> list(batches)
    [2]
    """

    def __init__(self, begin: Callable[[], Iterator[TrainerBatch]]) -> None:
        self._begin = begin
        self._batches: Iterator[TrainerBatch] | None = begin()  # at once, so that what can't begin says so here

    def __next__(self) -> TrainerBatch:
        if self._batches is None:
            self._batches = self._begin()
        try:
            return next(self._batches)
        except StopIteration:
            raise
        except BaseException:
            self._batches = None
            raise

    def close(self) -> None:
        """Ends what reads ahead."""
        close(self._batches)
