"""torchtune's path to the losses."""

from torchpipe.modules.losses import LinearCrossEntropyLoss

__all__ = ["LinearCrossEntropyLoss"]
