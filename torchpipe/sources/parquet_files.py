"""What is made sure of before load_dataset reads Parquet files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchpipe._sentences import printable
from torchpipe._suggest import listed
from torchpipe.errors import SourceError
from torchpipe.sources.file_rows import pass_over
from torchpipe.sources.reading import reading
from torchpipe.sources.source_file import SourceFile


def check_parquet(files: Sequence[SourceFile], paths: Sequence[Path], options: Mapping[str, Any]) -> list[Path]:
    """The paths of the files that hold rows; those that can't be read, or have other columns, are refused.

    load_dataset would fill a column that a later file lacks with nulls, cast one of another type, and fail at one that
    the first file lacks: what is in the rows would depend on the files' names. It fails at a file without rows.

    Args:
        files: all of them; their footers are read.
        paths: of the same, on this machine.
        options: of load_dataset. With ``features`` or ``columns``, which say what is wanted, nothing is compared.

    Raises:
        SourceError: the sentence names the file, or both; or none holds a row.
    """
    import pyarrow
    import pyarrow.parquet

    first: tuple[str, dict[str, str]] | None = None
    filled, empty = [], []
    for file, path in zip(files, paths, strict=True):
        try:
            with reading(file.name, path), path.open("rb") as opened:
                footer = pyarrow.parquet.read_metadata(opened)
        except pyarrow.ArrowException as error:
            raise SourceError(f"{file.name} can't be read as Parquet: {printable(error)[:300]} Get it anew.") from error
        columns = {field.name: str(field.type) for field in footer.schema.to_arrow_schema()}
        if footer.num_rows:
            filled.append(path)
        else:
            empty.append(f"{file.name} holds no rows")
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
    pass_over(empty, len(files))
    return filled
