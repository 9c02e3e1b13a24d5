"""CLIP's image transform for programs that run without Python."""

from torchpipe.models.clip.inference.transform import CLIPImageCore, CLIPImageTransform

__all__ = ["CLIPImageCore", "CLIPImageTransform"]
