"""What recipes share: batches for a model, processes that train together, checkpoints, evaluation, logs, seeds."""

from torchpipe._not_yet import refusing
from torchpipe.training.activation_checkpointing import set_activation_checkpointing
from torchpipe.training.bad_loss import check_loss
from torchpipe.training.batches import batch_loss, collater, num_trained, step_totals, to_device, trained_weight
from torchpipe.training.build_model import build_model, describe_parameters
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
)
from torchpipe.training.compiling import compile_layers
from torchpipe.training.distributed import Ranks
from torchpipe.training.evaluation import LossSum, held_out_losses, loss_sum, mean_loss
from torchpipe.training.exports import Exports
from torchpipe.training.fit import check_model
from torchpipe.training.gradients import clip_grad_norm
from torchpipe.training.lr_schedulers import get_cosine_schedule_with_warmup, get_lr, steps_of_schedule
from torchpipe.training.memory import cleanup_before_training, get_memory_stats, log_memory_stats
from torchpipe.training.metrics import TrainingLog
from torchpipe.training.model_type import ModelType
from torchpipe.training.plot import plot_losses, require_plot
from torchpipe.training.precision import get_dtype, set_default_dtype, training_dtype, validate_expected_param_dtype
from torchpipe.training.profiler import DummyProfiler, setup_torch_profiler
from torchpipe.training.rank import get_world_size_and_rank
from torchpipe.training.run_identity import what_decides_the_run
from torchpipe.training.run_settings import check_run_settings
from torchpipe.training.seed import seed_of_run, set_seed
from torchpipe.training.stop_signal import StopSignal
from torchpipe.training.waiting import StepWait

__all__ = [
    "DistributedCheckpointer",
    "DummyProfiler",
    "Exports",
    "FullModelHFCheckpointer",
    "FullModelMetaCheckpointer",
    "FullModelTorchTuneCheckpointer",
    "LossSum",
    "ModelType",
    "Ranks",
    "StepWait",
    "StopSignal",
    "TrainingLog",
    "batch_loss",
    "best_checkpoint",
    "build_model",
    "check_loss",
    "check_model",
    "check_run_settings",
    "checkpoint_to_resume",
    "checkpoints",
    "cleanup_before_training",
    "clip_grad_norm",
    "collater",
    "compile_layers",
    "describe_parameters",
    "get_cosine_schedule_with_warmup",
    "get_dtype",
    "get_lr",
    "get_memory_stats",
    "get_world_size_and_rank",
    "held_out_losses",
    "load_checkpoint",
    "log_memory_stats",
    "loss_sum",
    "mean_loss",
    "num_trained",
    "plot_losses",
    "read_state",
    "require_plot",
    "save_checkpoint",
    "seed_of_run",
    "set_activation_checkpointing",
    "set_default_dtype",
    "set_seed",
    "setup_torch_profiler",
    "step_totals",
    "steps_of_schedule",
    "to_device",
    "trained_weight",
    "training_dtype",
    "validate_expected_param_dtype",
    "what_decides_the_run",
]

__getattr__ = refusing(__name__)
