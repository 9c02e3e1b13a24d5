"""From packs to the batches of each rank: global steps, their balance over ranks, and a loader that resumes anywhere.

What decides which pack goes where, and the state, need no torch; the loader is looked up when it is asked for.
"""

from typing import TYPE_CHECKING

from torchpipe._reexport import lazily
from torchpipe.loading.balance import Balance
from torchpipe.loading.epoch_steps import EpochSteps
from torchpipe.loading.order import epoch_order
from torchpipe.loading.sampler import StepSampler
from torchpipe.loading.shard_steps import ShardedPacks, ShardSteps, steps_of
from torchpipe.loading.spread import Spread, compare_balance, measure_spread
from torchpipe.loading.steps import GlobalSteps
from torchpipe.loading.with_padding import WithPadding

if TYPE_CHECKING:
    from torchpipe.loading.loader import Step, StepLoader

__all__ = [
    "Balance",
    "EpochSteps",
    "GlobalSteps",
    "ShardSteps",
    "ShardedPacks",
    "Spread",
    "Step",
    "StepLoader",
    "StepSampler",
    "WithPadding",
    "compare_balance",
    "epoch_order",
    "measure_spread",
    "steps_of",
]

__getattr__ = lazily(__name__, dict.fromkeys(("Step", "StepLoader"), "torchpipe.loading.loader"))
