"""torchtune's path of CLIP's exportable image transform."""

from typing import TYPE_CHECKING

from torchpipe._reexport import lazily

if TYPE_CHECKING:
    from torchpipe.models.clip.inference.transform import CLIPImageTransform
else:
    __getattr__ = lazily(__name__, {"CLIPImageTransform": "torchpipe.models.clip.inference.transform"})

__all__ = ["CLIPImageTransform"]
