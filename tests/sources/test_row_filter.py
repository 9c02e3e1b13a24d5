"""Filters called row by row keep what Hugging Face's own filter keeps."""

from typing import Any

import pytest

from torchpipe.errors import ConfigError, DataError
from torchpipe.sources.row_filter import RowFilter


def rows() -> Any:
    import datasets

    return datasets.Dataset.from_list([{"a": n, "b": f"text {n % 4}"} for n in range(23)])


CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (lambda row: row["a"] % 3 == 0, {}),
    "with_indices": (lambda row, index: (row["a"] + index) % 3 == 0, {"with_indices": True}),
    "one column": (lambda a: a > 7, {"input_columns": "a"}),
    "columns": (lambda b, a: b == f"text {a % 3}", {"input_columns": ["b", "a"]}),
    "fn_kwargs": (lambda row, least: row["a"] >= least, {"fn_kwargs": {"least": 5}}),
    "batched": (lambda batch: [a % 2 == 0 for a in batch["a"]], {"batched": True, "batch_size": 4}),
    "batched columns": (
        lambda a, indices: [x == i for x, i in zip(a, indices, strict=True)],
        {"batched": True, "input_columns": ["a"], "with_indices": True},
    ),
    "with_rank": (lambda row, rank: row["a"] > (rank or 0) + 3, {"with_rank": True}),
}


@pytest.mark.parametrize("call", CALLS)
def test_each_way_of_calling_keeps_the_same_rows(call: str) -> None:
    function, options = CALLS[call]
    source = rows()
    expected = source.filter(function, load_from_cache_file=False, **options)["a"]
    row_filter = RowFilter(function, options)
    row_filter.check(source, "rows")
    assert [n for n in range(len(source)) if row_filter.keeps(source[n], n, "rows")] == list(expected)
    assert 0 < len(expected) <= 23


def test_an_error_of_the_function_names_the_row() -> None:
    def refuse(row: Any) -> bool:
        raise DataError("no.")

    with pytest.raises(DataError, match=r"^filter_fn at row 4 of chats: no\.$"):
        RowFilter(refuse, {}).keeps({"a": 1}, 4, "chats")


def test_options_of_no_filter_are_refused() -> None:
    with pytest.raises(ConfigError, match="filter_kwargs 'keep' are no options of a filter that is called row by row"):
        RowFilter(bool, {"keep": 1}).check(rows(), "rows")
    with pytest.raises(ConfigError, match="filter_kwargs with_indices are for Hugging Face data sets; list is not one"):
        RowFilter(bool, {"with_indices": True}).check([{"a": 1}], "list")
    RowFilter(bool, {"num_proc": 4}).check([{"a": 1}], "list")
