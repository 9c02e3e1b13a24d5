"""Where the rows of a graph come from: the protocol of a source's config, and files of JSON lines."""

import glob
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from torchpipe.config.configurable import Configurable
from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.errors import ConfigError, MissingFileError
from torchpipe.pipeline.types import DatasetIterationPolicy
from torchpipe.sources.json_rows import JsonRows
from torchpipe.sources.source_file import SourceFile

if TYPE_CHECKING:
    import grain


class SourceConfig(Protocol):
    """A value that describes rows, such as a ``Configurable.Config``, and builds them."""

    def build(
        self, *, dataset_iteration_policy: DatasetIterationPolicy
    ) -> "RandomAccessDataSource[Any] | grain.IterDataset[Any]":
        """The rows: read by number, or a stream that takes its share of them itself, as the policy says."""
        ...


class IndexedJsonlSource(Configurable):
    """The rows of JSONL files, by number. Each is what ``json.loads`` gives for its line; blank lines are none.

    Where the lines of large files are is looked for once on a machine, kept in the cache folder and shared by all
    processes (see :mod:`torchpipe.sources.jsonl_index`). A line that is no JSON object raises when its row is read.

    Args:
        config: which files.
        dataset_iteration_policy: not used: orders and shares of rows are the graph's.

    Raises:
        MissingFileError: a pattern matches no file (a FileNotFoundError). When a row is read: its file was deleted.
        ConfigError: two patterns give the same file, or there is no pattern (a ValueError).
        SourceError: a file can't be read, or all are empty. When a row is read: its file has changed.
        MalformedRow: when a row is read; the sentence names file, line and byte.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(Configurable.Config):
        """Files of JSON lines.

        Attributes:
            patterns: paths, in which ``*``, ``?``, ``[...]`` and ``**`` stand for any. The files of a pattern are
                sorted by path; those of the first pattern come first.
            cache_dir: where indexes are kept; None: TORCHPIPE_CACHE, else ``~/.cache/torchpipe``.

        Raises:
            ConfigError: there is no pattern.
        """

        patterns: tuple[str, ...]
        cache_dir: str | None = None

        def __post_init__(self) -> None:
            given: Any = self.patterns
            # YAML has lists. A set would have another order in each process.
            if not (isinstance(given, list | tuple) and given and all(isinstance(one, str | Path) for one in given)):
                raise ConfigError(
                    f"patterns is {given!r}. Give paths or patterns in a tuple, such as ('data/*.jsonl',)."
                )
            self.patterns = tuple(map(str, given))
            if not isinstance(self.cache_dir, str | Path | None):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigError(f"cache_dir is {self.cache_dir!r}. Give the path of a folder, or leave it out.")

        def describe(self) -> str:
            """The files, as they are named."""
            return ", ".join(self.patterns)

    can_be_read_ahead = True

    def __init__(self, config: Config, *, dataset_iteration_policy: DatasetIterationPolicy | None = None) -> None:
        self.config = config
        self._rows = JsonRows([SourceFile.of_path(path, config.cache_dir) for path in _matched(config.patterns)])

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        return self._rows[index]

    def describe(self) -> str:
        """The names of the files."""
        return self._rows.describe()

    def fingerprint(self) -> str:
        """What tells these rows from others: path, size, time of change, inode and ends of each file."""
        return self._rows.fingerprint()


def _matched(patterns: tuple[str, ...]) -> list[Path]:
    """The files of the patterns, resolved."""
    paths: list[Path] = []
    for pattern in patterns:
        found = sorted(glob.glob(str(Path(pattern).expanduser()), recursive=True))
        files = [Path(name).resolve() for name in found if Path(name).is_file()]
        if not files:
            raise MissingFileError(f"pattern matched no files: {pattern} (looked from {Path.cwd()}). Check its path.")
        paths += files
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise ConfigError(
            f"patterns resolve to the same file more than once: {twice}. Its rows would be trained on twice as often; "
            "name it once, and let a mix's weight say how often."
        )
    return paths
