"""Ranks that train on data while it is being prepared: all of them go on with a step, or none does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torchpipe.training.distributed import Ranks


class StepWait:
    """Waits for a step's data on every rank, outside of collectives; for ``StepLoader.until(wait=...)``.

    Each rank waits for its own data, and then for the others. Once all have everything, there is nothing to wait for
    any more.

    Args:
        ranks: that train together.
        steps: :class:`torchpipe.loading.ShardSteps`.
        stop: whether this rank was asked to end.
        save: writes a checkpoint and returns its path; called on a rank whose data can't be had, before the error is
            raised.
        on_complete: called on every rank, before the same step, once all data is there on all of them.

    Attributes:
        was_stopped: whether the wait was ended by ``stop`` of any rank.
    """

    def __init__(
        self,
        ranks: Ranks,
        steps: Any,
        *,
        stop: Callable[[], bool],
        save: Callable[[], Path | None],
        on_complete: Callable[[], None],
    ) -> None:
        self.was_stopped = False
        self._ranks, self._steps, self._stop = ranks, steps, stop
        self._save, self._on_complete = save, on_complete
        self._is_complete = False

    def __call__(self, epoch: int, step: int) -> bool:
        """True once every rank has the data of a step; False where one was asked to end before.

        Raises:
            Exception: this rank's data can't be had.
            DistributedError: another rank's.
        """
        if self._is_complete:
            return True
        try:
            is_ready = self._steps.wait(epoch, step, stop=self._stop)
            is_complete = self._steps.is_complete
        except Exception:
            self._ranks.tell_failure()
            print(
                f"The rows that come next can't be trained on, as the error says. The run is saved as {self._save()}. "
                "Correct the rows where they stand, leave the others as they are, and resume=true goes on.",
                flush=True,
            )
            raise
        num_stopped, num_complete = self._ranks.meet(not is_ready, is_complete)
        if num_complete == self._ranks.world_size:
            self._is_complete = True
            self._on_complete()
        self.was_stopped = num_stopped > 0
        return not self.was_stopped
