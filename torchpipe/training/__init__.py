"""What recipes share: batches in a resumable order, checkpoints, evaluation, the log, seeds."""

from torchpipe.training.batches import (
    batch_loss,
    collater,
    epoch_order,
    num_trained,
    step_batches,
    to_device,
    trained_weight,
)
from torchpipe.training.checkpoint import checkpoints, load_checkpoint, save_checkpoint
from torchpipe.training.evaluation import mean_loss
from torchpipe.training.metrics import TrainingLog
from torchpipe.training.seed import set_seed

__all__ = [
    "TrainingLog",
    "batch_loss",
    "checkpoints",
    "collater",
    "epoch_order",
    "load_checkpoint",
    "mean_loss",
    "num_trained",
    "save_checkpoint",
    "set_seed",
    "step_batches",
    "to_device",
    "trained_weight",
]
