"""torchtune's path of resizing into a canvas."""

from typing import TYPE_CHECKING

from torchpipe._reexport import lazily

if TYPE_CHECKING:
    from torchpipe.vision.resize import resize_with_pad
else:
    __getattr__ = lazily(
        __name__,
        {
            "resize_with_pad": "torchpipe.vision.resize",
        },
    )

__all__ = ["resize_with_pad"]
