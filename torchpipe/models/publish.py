"""Folders of weights that are there whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from torchpipe._publishing import whole_folder
from torchpipe.errors import CheckpointError

_OURS = (
    "config.json",
    "model*.safetensors",
    "model.safetensors.index.json",
    "adapter_model.safetensors",
    "adapter_config.json",
)


@contextmanager
def published_folder(folder: Path) -> Iterator[Path]:
    """A new, empty folder to fill with weights, which becomes ``folder`` in one step, in place of earlier weights.

    Raises:
        CheckpointError: it can't be written, or ``folder`` holds something that the new one does not have and that is
            no file of weights; ``folder`` is as it was.
    """
    try:
        if folder.name in ("", ".."):
            raise CheckpointError(f"{folder} can't be replaced as a whole. Name a new folder for the weights.")
        if folder.exists() and not folder.is_dir():
            raise CheckpointError(f"{folder} is a file. Name a new folder for the weights.")
        with whole_folder(folder) as new:
            yield new
            _refuse_loss(folder, new)
    except CheckpointError:
        raise
    except (OSError, RuntimeError, SafetensorError) as error:  # what a full or read-only disk leads to
        raise CheckpointError(
            f"{folder} can't be written: {error}. Free the disk or name another folder; what was there is as it was."
        ) from error


def _refuse_loss(folder: Path, new: Path) -> None:
    there = list(folder.iterdir()) if folder.is_dir() else []
    lost = sorted(e.name for e in there if not (new / e.name).exists() and not _is_ours(e))
    if lost:
        raise CheckpointError(
            f"{folder} holds {', '.join(lost[:5])}{' and more' if len(lost) > 5 else ''}, and the weights would take "
            "the whole folder. Name a new one."
        )


def _is_ours(entry: Path) -> bool:
    """Whether it is a file of weights, or a folder of nothing else, as that of an export's adapters."""
    if entry.is_dir():
        inside = list(entry.iterdir())
        return bool(inside) and all(map(_is_ours, inside))
    return any(entry.match(own) for own in _OURS)
