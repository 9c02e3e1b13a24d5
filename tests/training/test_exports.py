"""When weights are exported, and under which name."""

from pathlib import Path
from typing import Any

from torchpipe.training import Exports


class Folder:
    """A checkpointer that only takes notes."""

    def __init__(self) -> None:
        self.exported: list[tuple[str, bool]] = []

    def export(self, model: Any, name: str, *, adapter_only: bool = False) -> Path:
        self.exported.append((name, adapter_only))
        return Path(name)


def test_after_each_epoch_and_every_so_many_steps_and_at_the_end() -> None:
    folder = Folder()
    exports = Exports(folder, None, every=2, adapter_only=True)
    epochs = {step: 0 if step == 3 else None for step in range(6)}
    assert [step for step in epochs if exports.due(step, epochs[step])] == [2, 3, 4]
    for step, epoch in epochs.items():
        exports.after(step, epoch=epoch)
    assert exports.at_end(5, epoch=None) == Path("step_5")
    assert folder.exported == [(name, True) for name in ("step_2", "epoch_0", "step_4", "step_5")]


def test_the_last_step_is_exported_once() -> None:
    folder = Folder()
    exports = Exports(folder, None)
    exports.after(7, epoch=1)
    assert exports.at_end(7, epoch=1) == Path("epoch_1")
    assert folder.exported == [("epoch_1", False)]


def test_a_run_that_is_resumed_at_its_end_exports_again() -> None:
    folder = Folder()
    assert Exports(folder, None).at_end(7, epoch=1) == Path("epoch_1")


def test_without_a_checkpointer_nothing_is_exported() -> None:
    exports = Exports(None, None, every=1)
    exports.after(1, epoch=0)
    assert not exports.due(1, 0)
    assert exports.at_end(1, epoch=0) is None


def test_ranks_beside_the_first_know_when_it_is_time_and_write_nothing() -> None:
    folder = Folder()
    exports = Exports(folder, None, every=2, writes=False)
    assert [exports.due(step, None) for step in range(4)] == [False, False, True, False]
    exports.after(2, epoch=None)
    assert exports.at_end(2, epoch=None) is None
    assert folder.exported == []
