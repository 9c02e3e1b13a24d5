"""Weights for others: in a publisher's layout, when an epoch has ended and every so many steps."""

from pathlib import Path
from typing import Any


class Exports:
    """Writes a run's weights through a checkpointer, as ``epoch_0``, ``epoch_1``, ... and ``step_<number>``.

    They are not what a run resumes from. A folder of the same name is replaced.

    Args:
        checkpointer: None writes nothing.
        model: that is trained.
        every: steps between exports; None: only after epochs, and at the end.
        adapter_only: whether adapters are written without the merged weights.
        writes: False on ranks beside the first, which write nothing, and know when it is time to.
    """

    def __init__(
        self,
        checkpointer: Any,
        model: Any,
        *,
        every: int | None = None,
        adapter_only: bool = False,
        writes: bool = True,
    ) -> None:
        self._checkpointer, self._model = checkpointer, model
        self._every, self._adapter_only, self._writes = every, adapter_only, writes
        self._newest: tuple[int, Path] | None = None

    def due(self, step: int, epoch: int | None) -> bool:
        """Whether it is time to export after ``step``, counted from 1, which ended ``epoch``; None: it ended none."""
        if self._checkpointer is None or step == 0:
            return False
        return epoch is not None or step % (self._every or step + 1) == 0

    def after(self, step: int, *, epoch: int | None) -> None:
        """Exports if it is time to.

        The step's checkpoint is to be written before: where an export fails or is cut off, the run goes on from there,
        and calls this again for the step that it goes on from.

        Args:
            step: that was done, counted from 1; 0: none was.
            epoch: that it ended, counted from 0; None: it ended none.
        """
        if self.due(step, epoch):
            self.at_end(step, epoch=epoch)

    def at_end(self, step: int, *, epoch: int | None) -> Path | None:
        """Where the weights of a run's last step were exported, which is done now if it wasn't; None: nowhere."""
        if self._checkpointer is None or not self._writes:
            return None
        if self._newest is None or self._newest[0] != step:
            name = f"step_{step}" if epoch is None else f"epoch_{epoch}"
            self._newest = step, self._checkpointer.export(self._model, name, adapter_only=self._adapter_only)
        return self._newest[1]
