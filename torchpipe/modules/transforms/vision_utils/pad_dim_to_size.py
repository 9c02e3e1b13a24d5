"""torchtune's path of padding one axis."""

from typing import TYPE_CHECKING

from torchpipe._reexport import lazily

if TYPE_CHECKING:
    from torchpipe.vision.tiles import pad_dim_to_size
else:
    __getattr__ = lazily(
        __name__,
        {
            "pad_dim_to_size": "torchpipe.vision.tiles",
        },
    )

__all__ = ["pad_dim_to_size"]
