"""torchtune's path to the losses."""

from torchpipe.modules.chunked_loss import CEWithChunkedOutputLoss
from torchpipe.modules.losses import LinearCrossEntropyLoss

__all__ = ["CEWithChunkedOutputLoss", "LinearCrossEntropyLoss"]
