"""torchpipe: from raw conversations to training batches, with proof of what will be trained on."""

__version__ = "0.1.0"
__all__ = ["__version__"]
