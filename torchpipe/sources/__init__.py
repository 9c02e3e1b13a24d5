"""Where rows come from."""

from torchpipe.sources.huggingface import Rows, Source, describe_source, load_rows

__all__ = ["Rows", "Source", "describe_source", "load_rows"]
