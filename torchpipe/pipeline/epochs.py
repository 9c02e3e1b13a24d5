"""The batches of a loader's epochs, one after the other."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchpipe.errors import ConfigError
from torchpipe.pipeline.collators import TrainerBatch
from torchpipe.pipeline.planned.batches import PlannedBatches

if TYPE_CHECKING:
    from torchpipe.pipeline.loader import GrainDataLoader


def epochs_of(loader: "GrainDataLoader") -> Iterator[tuple[int, Iterator[TrainerBatch]]]:
    """See :meth:`torchpipe.pipeline.GrainDataLoader.epochs`."""
    if not isinstance(loader.rows, PlannedBatches):
        raise ConfigError(
            f"Grain runs this graph ({loader.why_not_planned}), and where its epochs end isn't known. Iterate the "
            "loader itself."
        )
    return _epochs(loader, loader.rows)


def _epochs(loader: "GrainDataLoader", source: PlannedBatches) -> Iterator[tuple[int, Iterator[TrainerBatch]]]:
    ended = -1
    while source.has_next:
        if source.epoch <= ended:
            raise ConfigError(
                f"Epoch {source.epoch} was left before its last batch. Take all of its batches before the next epoch, "
                "or leave both loops, and enter them again to go on with the rest."
            )
        ended = source.epoch
        yield ended, _batches_of(loader, source, ended)


def _batches_of(loader: "GrainDataLoader", source: PlannedBatches, epoch: int) -> Iterator[TrainerBatch]:
    while source.has_next and source.epoch == epoch:
        yield next(iter(loader))
