"""Which rows of its sources an item was made of."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from torch.utils.data import Subset

from torchpipe.datasets.growing import GrowingPackedDataset
from torchpipe.datasets.joined import JoinedDataset
from torchpipe.datasets.packed import PackedDataset
from torchpipe.datasets.stored import StoredDataset


def rows_of(dataset: Any, items: Iterable[int]) -> dict[str, list[int]]:
    """The source rows that some items of a data set were made of, ascending, by the name of their source.

    A row's number is the one that the data set's errors call it by. Items below 0 are padding, and made of no row.

    Args:
        dataset: one of this package's, or any other, whose items are its rows.
        items: numbers of items: packs, where the data set is packed.

    >>> from torchpipe.datasets import ConcatDataset
    >>> rows_of(ConcatDataset([["a", "b"], ["c"]]), [2, 0, -1])
    {'list': [0]}
    """
    found: dict[str, set[int]] = {}
    for item in items:
        if item >= 0:
            for source, row in _rows_of_item(dataset, item):
                found.setdefault(source, set()).add(row)
    return {source: sorted(rows) for source, rows in found.items()}


def describe_rows(dataset: Any, items: Iterable[int]) -> str:
    """The rows of :func:`rows_of` in words; item by item where items are no rows themselves.

    >>> describe_rows(["a", "b", "c", "d", "e"], [4, 0, 1, 2, -1])
    'rows 0-2, 4 of list'
    >>> from torchpipe.datasets import ConcatDataset
    >>> describe_rows(ConcatDataset([["a", "b"], ["c"]]), [1, 2, -1])
    'item 1 (row 1 of list), item 2 (row 0 of list)'
    """
    items = sorted(item for item in set(items) if item >= 0)
    if not isinstance(dataset, Subset | JoinedDataset | GrowingPackedDataset | PackedDataset | StoredDataset):
        return _of_sources(rows_of(dataset, items)) if items else "padding alone"
    is_packed = isinstance(dataset, GrowingPackedDataset | PackedDataset) or getattr(dataset, "packed", False)
    kind = "pack" if is_packed else "item"
    told = [f"{kind} {item} ({_of_sources(rows_of(dataset, [item]))})" for item in items]
    return ", ".join(told) or "padding alone"


def _rows_of_item(dataset: Any, item: int) -> Iterator[tuple[str, int]]:
    """The rows of an item, each with the name of its source."""
    source = str(getattr(dataset, "name", type(dataset).__name__))
    if isinstance(dataset, Subset):
        yield from _rows_of_item(dataset.dataset, dataset.indices[item])
    elif isinstance(dataset, JoinedDataset):
        yield from _rows_of_item(*dataset.locate(item))
    elif isinstance(dataset, GrowingPackedDataset):
        part, pack = dataset.part_of(item)
        yield from ((source, row) for _, row in _rows_of_item(part, pack))
    elif isinstance(dataset, PackedDataset) and isinstance(dataset.samples, JoinedDataset):
        for span in dataset.spans(item):
            yield from _rows_of_item(dataset.samples, dataset.row_of(span.sample)[0])
    elif isinstance(dataset, PackedDataset):
        yield from ((source, dataset.row_of(span.sample)[0]) for span in dataset.spans(item))
    elif isinstance(dataset, StoredDataset):
        yield source, dataset.row_of(item)[0]
    else:
        yield source, item


def _of_sources(found: dict[str, list[int]]) -> str:
    return ", ".join(f"{_numbers(rows)} of {source}" for source, rows in found.items())


def _numbers(rows: Sequence[int]) -> str:
    """Ascending numbers, runs of three or more as their ends."""
    runs: list[list[int]] = []
    for row in rows:
        if runs and row == runs[-1][-1] + 1:
            runs[-1].append(row)
        else:
            runs.append([row])
    words = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"{'row' if len(rows) == 1 else 'rows'} {', '.join(words)}"
