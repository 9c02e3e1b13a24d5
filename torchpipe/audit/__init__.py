"""What will be trained on, shown."""

from torchpipe.audit.preview import preview, prompt_of

__all__ = ["preview", "prompt_of"]
