"""torchtune's path of cutting into tiles."""

from typing import TYPE_CHECKING

from torchpipe._reexport import lazily

if TYPE_CHECKING:
    from torchpipe.vision.tiles import tile_crop
else:
    __getattr__ = lazily(
        __name__,
        {
            "tile_crop": "torchpipe.vision.tiles",
        },
    )

__all__ = ["tile_crop"]
