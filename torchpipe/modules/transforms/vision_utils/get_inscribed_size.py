"""torchtune's path of the size of a picture in a canvas."""

from typing import TYPE_CHECKING

from torchpipe._reexport import lazily

if TYPE_CHECKING:
    from torchpipe.vision.resize import get_inscribed_size
else:
    __getattr__ = lazily(
        __name__,
        {
            "get_inscribed_size": "torchpipe.vision.resize",
        },
    )

__all__ = ["get_inscribed_size"]
