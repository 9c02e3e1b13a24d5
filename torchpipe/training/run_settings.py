"""What the settings that recipes share can't be together."""

from typing import Any

import torch

from torchpipe.errors import ConfigError
from torchpipe.training.plot import require_plot

_DEVICES = ("cpu", "cuda", "mps", "xpu")


def check_run_settings(settings: Any) -> None:
    """Refuses settings of checkpoints, exports, plot and device that can't work, before anything is read.

    Args:
        settings: a recipe's, with its defaults filled in.

    Raises:
        ConfigError: two of them contradict each other, or there is no such device here.
        MissingLibraryError: ``plot`` is asked for, and its library is not installed.
    """
    if settings.resume and settings.overwrite:
        raise ConfigError("resume=true goes on from output_dir and overwrite=true empties it. Set one of them.")
    if settings.keep_best_checkpoint and not (settings.dataset_val and settings.run_val_every_n_steps):
        raise ConfigError("keep_best_checkpoint goes by the held-out loss. Set dataset_val and run_val_every_n_steps.")
    if settings.export_every_n_steps and not settings.checkpointer:
        raise ConfigError("export_every_n_steps is for a checkpointer, and the config has none.")
    if settings.plot:
        require_plot()
    if str(settings.device).partition(":")[0] not in _DEVICES:
        raise ConfigError(f"device is {settings.device!r}. It can be cpu, or cuda (cuda:1, ...), mps or xpu.")
    if str(settings.device).startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(f"device is {settings.device!r} and torch sees no CUDA device. Set device=cpu.")
