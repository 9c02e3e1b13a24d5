"""From packs to the batches of each rank: global steps, their balance over ranks, and a loader that resumes anywhere.

What decides which pack goes where needs no torch; the names that do are looked up when they are asked for.
"""

from torchpipe.loading.balance import Balance
from torchpipe.loading.order import epoch_order
from torchpipe.loading.spread import Spread, compare_balance, measure_spread
from torchpipe.loading.steps import GlobalSteps

__all__ = ["Balance", "GlobalSteps", "Spread", "compare_balance", "epoch_order", "measure_spread"]
