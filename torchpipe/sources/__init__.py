"""Where rows come from."""

from torchpipe.sources.fingerprint import source_fingerprint
from torchpipe.sources.huggingface import Rows, Source, SourceConfig, describe_source, load_rows
from torchpipe.sources.json_rows import JsonRows
from torchpipe.sources.views import JoinedRows, KeptRows

__all__ = [
    "JoinedRows",
    "JsonRows",
    "KeptRows",
    "Rows",
    "Source",
    "SourceConfig",
    "describe_source",
    "load_rows",
    "source_fingerprint",
]
