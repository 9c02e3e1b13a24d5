"""What recipes share: batches for a model, processes that train together, checkpoints, evaluation, the log, seeds."""

from torchpipe.training.batches import batch_loss, collater, num_trained, step_totals, to_device, trained_weight
from torchpipe.training.checkpoint import (
    best_checkpoint,
    checkpoint_to_resume,
    checkpoints,
    load_checkpoint,
    read_state,
    save_checkpoint,
)
from torchpipe.training.checkpointers import (
    DistributedCheckpointer,
    FullModelHFCheckpointer,
    FullModelMetaCheckpointer,
    FullModelTorchTuneCheckpointer,
    ModelType,
)
from torchpipe.training.distributed import Ranks
from torchpipe.training.evaluation import mean_loss
from torchpipe.training.fit import check_model
from torchpipe.training.metrics import TrainingLog
from torchpipe.training.seed import set_seed
from torchpipe.training.stop_signal import StopSignal
from torchpipe.training.waiting import StepWait

__all__ = [
    "DistributedCheckpointer",
    "FullModelHFCheckpointer",
    "FullModelMetaCheckpointer",
    "FullModelTorchTuneCheckpointer",
    "ModelType",
    "Ranks",
    "StepWait",
    "StopSignal",
    "TrainingLog",
    "batch_loss",
    "best_checkpoint",
    "check_model",
    "checkpoint_to_resume",
    "checkpoints",
    "collater",
    "load_checkpoint",
    "mean_loss",
    "num_trained",
    "read_state",
    "save_checkpoint",
    "set_seed",
    "step_totals",
    "to_device",
    "trained_weight",
]
