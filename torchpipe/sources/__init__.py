"""Where rows come from."""

from torchpipe.sources.huggingface import Rows, describe_source, load_rows

__all__ = ["Rows", "describe_source", "load_rows"]
