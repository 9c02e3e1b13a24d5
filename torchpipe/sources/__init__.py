"""Where rows come from."""

from torchpipe.sources.huggingface import Rows, Source, SourceConfig, describe_source, load_rows

__all__ = ["Rows", "Source", "SourceConfig", "describe_source", "load_rows"]
