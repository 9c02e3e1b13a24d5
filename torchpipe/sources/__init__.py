"""Where rows come from."""

from torchpipe.sources.csv_rows import CsvRows
from torchpipe.sources.file_rows import FileRows
from torchpipe.sources.fingerprint import source_fingerprint
from torchpipe.sources.huggingface import Rows, Source, SourceConfig, describe_source, load_rows
from torchpipe.sources.json_rows import JsonRows
from torchpipe.sources.source_file import SourceFile
from torchpipe.sources.text_rows import TextRows
from torchpipe.sources.views import JoinedRows, KeptRows, check_rows, each_of

__all__ = [
    "CsvRows",
    "FileRows",
    "JoinedRows",
    "JsonRows",
    "KeptRows",
    "Rows",
    "Source",
    "SourceConfig",
    "SourceFile",
    "TextRows",
    "check_rows",
    "describe_source",
    "each_of",
    "load_rows",
    "source_fingerprint",
]
