"""torchtune's older path of :mod:`torchpipe.modules.transforms.tokenizers`."""

from torchpipe.modules.transforms import tokenizers
from torchpipe.modules.transforms.tokenizers import *  # noqa: F403  # the names that are listed there

__all__ = []
__all__ += tokenizers.__all__
