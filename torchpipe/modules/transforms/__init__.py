"""torchtune's path of the protocol of transforms and of the mask of cross-attention."""

from typing import TYPE_CHECKING

from torchpipe._reexport import lazily

if TYPE_CHECKING:
    from torchpipe.data.protocols import Transform
    from torchpipe.vision.cross_attention import VisionCrossAttentionMask
else:
    __getattr__ = lazily(
        __name__,
        {
            "Transform": "torchpipe.data.protocols",
            "VisionCrossAttentionMask": "torchpipe.vision.cross_attention",
        },
    )

__all__ = ["Transform", "VisionCrossAttentionMask"]
