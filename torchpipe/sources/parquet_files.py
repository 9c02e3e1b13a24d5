"""What is made sure of before load_dataset reads Parquet files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchpipe._sentences import printable
from torchpipe._suggest import listed
from torchpipe.errors import SourceError
from torchpipe.sources.reading import reading
from torchpipe.sources.source_file import SourceFile


def check_parquet(files: Sequence[SourceFile], paths: Sequence[Path], options: Mapping[str, Any]) -> None:
    """Refuses files that can't be read, or that have other columns than the first.

    load_dataset would fill a column that a later file lacks with nulls, cast one of another type, and fail at one that
    the first file lacks: what is in the rows would depend on the files' names.

    Args:
        files: all of them; their footers are read.
        paths: of the same, on this machine.
        options: of load_dataset. With ``features`` or ``columns``, which say what is wanted, nothing is compared.

    Raises:
        SourceError: the sentence names the file, or both.
    """
    import pyarrow
    import pyarrow.parquet

    first: tuple[str, dict[str, str]] | None = None
    for file, path in zip(files, paths, strict=True):
        try:
            with reading(file.name, path), path.open("rb") as opened:
                schema = pyarrow.parquet.read_schema(opened)
        except pyarrow.ArrowException as error:
            raise SourceError(f"{file.name} can't be read as Parquet: {printable(error)[:300]} Get it anew.") from error
        columns = {field.name: str(field.type) for field in schema}
        if first is None:
            first = file.name, columns
        differing = {name for name, kind in columns.items() ^ first[1].items()}
        if differing and not {"features", "columns"} & set(options):
            name = sorted(differing)[0]
            raise SourceError(
                f"{file.name} has other columns than {first[0]}: {listed(sorted(differing))} ({name!r} is "
                f"{columns.get(name, 'missing')}, and there {first[1].get(name, 'missing')}). Write them alike, or say "
                "what is wanted: features=..., or columns=[...]."
            )
