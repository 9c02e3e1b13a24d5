"""Losses over pairs of answers."""

from torchpipe._not_yet import refusing
from torchpipe.rlhf.loss.dpo import DPOLoss

__all__ = ["DPOLoss"]

__getattr__ = refusing(__name__)
