"""torchtune's path of the choice of a canvas."""

from typing import TYPE_CHECKING

from torchpipe._reexport import lazily

if TYPE_CHECKING:
    from torchpipe.vision.tiles import find_supported_resolutions, get_canvas_best_fit
else:
    __getattr__ = lazily(
        __name__,
        {
            "find_supported_resolutions": "torchpipe.vision.tiles",
            "get_canvas_best_fit": "torchpipe.vision.tiles",
        },
    )

__all__ = ["find_supported_resolutions", "get_canvas_best_fit"]
