"""Items of rows that come one after another, without number or count."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from torchpipe.data.ledger_summary import LedgerSummary, shown_name
from torchpipe.data.overflow import Fitted
from torchpipe.data.row_policy import Refused
from torchpipe.errors import ConfigError, DataError, located
from torchpipe.sources.huggingface import as_load_dataset_takes
from torchpipe.sources.row_filter import RowFilter
from torchpipe.sources.shard_cursor import ShardCursor
from torchpipe.sources.streams import RowStream
from torchpipe.store.sft_recipe import SFTRecipe
from torchpipe.store.source_recipe import SourceRecipe, is_trained, untrained_error
from torchpipe.store.text_recipe import TextRecipe

STREAMING = "streaming"
"""The option of ``load_dataset`` that asks for a stream."""


class StreamedDataset(IterableDataset[dict[str, Any]]):
    """The items of a builder with ``streaming=True``, for a torch ``DataLoader`` with the collate function of its kind.

    Shards (files, or what ``load_dataset`` makes of them) are read one after another. Each worker of a ``DataLoader``,
    and each process of ``torch.distributed``, takes its part of them; files left over are shared by rows. Every
    pass reads the shards in another order, hashed from the seed; rows of a shard keep theirs. Workers that end with a
    pass don't count it: set ``epoch`` before each, or give the ``DataLoader`` ``persistent_workers=True``.

    A graph of :mod:`torchpipe.pipeline` with a ``HuggingFaceStreamingSource`` reads the same stream, and also shuffles,
    packs, mixes and resumes it on any number of ranks.

    Args:
        recipe: of the items.
        seed: of the shards' order; None keeps the stream's own.

    Attributes:
        name: what errors call the source.
        epoch: of the next pass.

    Raises:
        ConfigError: an option needs rows that are numbered.
        SourceError: the stream can't be opened. When an item is asked for: it can't be read on.
    """

    def __init__(self, recipe: SourceRecipe, *, seed: int | None = 0) -> None:
        options = {name: value for name, value in recipe.load_dataset_kwargs.items() if name != STREAMING}
        if not isinstance(recipe.source, str):
            raise ConfigError(
                f"streaming=True is an option of load_dataset, and the source is a {type(recipe.source).__name__}. "
                "Leave it out, or give the source by name."
            )
        if recipe.duplicates is not None:
            raise ConfigError("drop_duplicates compares all rows, and a stream has no end. Leave one of the two out.")
        self.name = recipe.name
        self.transform: Any = recipe.transform()
        self.epoch = 0
        self._recipe, self._seed = recipe, seed
        self._filter = None
        if recipe.filter_fn is not None:
            self._filter = RowFilter(recipe.filter_fn, recipe.filter_kwargs or {})
        self._stream = RowStream(*as_load_dataset_takes(recipe.source, options))
        self._read = self._used = 0
        self._left_out: Counter[str] = Counter()

    @property
    def ledger(self) -> LedgerSummary:
        """What became of the rows that this process has read."""
        return LedgerSummary(read=self._read, used=self._used, left_out=dict(self._left_out))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        part, num_parts = _part_of()
        seed, epoch = self._seed, self.epoch
        self.epoch += 1
        cursor = ShardCursor(self._stream, seed=seed, repeat=False, part=part, num_parts=num_parts, epoch=epoch)
        for number, row in enumerate(cursor):
            self._read += 1
            try:
                items = self._items(dict(row), number)
            except DataError as error:
                if not self._recipe.row_policy.leaves_out:
                    where = f"Row {number} of part {part + 1} of {num_parts} of the stream {self.name}"
                    raise located(error, where) from None
                self._left_out[shown_name(Refused.by(error, None).reason)] += 1
                continue
            self._used += bool(items)
            yield from items

    def _items(self, row: Mapping[str, Any], number: int) -> list[dict[str, Any]]:
        recipe = self._recipe
        if self._filter is not None and not self._filter.keeps(row, number, self.name):
            self._left_out["filtered"] += 1
            return []
        if recipe.holdout is not None and not recipe.holdout.uses(row):
            self._left_out["other_part"] += 1
            return []
        if recipe.kind not in _OF_SAMPLES:
            return [self.transform(row)]
        fitted: Fitted = self.transform.fitted(row)
        why = fitted.left_out
        if why is None and recipe.row_policy.on_untrained != "keep" and not any(map(is_trained, fitted.samples)):
            if recipe.row_policy.on_untrained == "raise":
                raise untrained_error()
            why = "nothing_trained"
        if why is None:
            return fitted.samples
        self._left_out[shown_name(why)] += 1
        return []

    def __getitem__(self, index: int) -> dict[str, Any]:
        raise self.has_no_numbers()

    def has_no_numbers(self) -> ConfigError:
        """The error of who asks for rows by number."""
        return ConfigError(
            f"{self.name} is a stream (streaming=True), whose rows have no numbers. Give it to a DataLoader; recipes "
            "and commands take rows by number, or a stream as a graph: dataloader, with "
            "torchpipe.pipeline.HuggingFaceStreamingSource (docs/pipeline.md)."
        )


_OF_SAMPLES = frozenset({SFTRecipe.kind, TextRecipe.kind})
"""The kinds whose items are samples, of which a row may give several or none."""


def _part_of() -> tuple[int, int]:
    """Which part of the rows this worker of this process reads, and of how many."""
    import torch.distributed as dist

    rank, world_size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    worker = get_worker_info()
    if worker is None:
        return rank, world_size
    return rank * worker.num_workers + worker.id, world_size * worker.num_workers
