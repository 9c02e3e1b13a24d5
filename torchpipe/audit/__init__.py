"""What will be trained on, shown."""

from torchpipe.audit.preview import preview

__all__ = ["preview"]
