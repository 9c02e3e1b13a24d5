"""What is counted of a graph that Grain runs, and what becomes of rows with errors."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest

from torchpipe.errors import DataError, MalformedRow, SourceError
from torchpipe.pipeline import DatasetConcatConfig, IndexedJsonlSource, SampleProcessor, SingleDatasetConfig
from torchpipe.pipeline.by_grain.ledger import GraphLedger, NodeLedger, graph_ledger

Build = Callable[..., Any]
Rows = Callable[[Any], list[Any]]


class Careful(SampleProcessor):
    """Refuses rows that a tenth divides, gives nothing for odd ones, and fails at 77."""

    def __call__(self, sample: Any, rng: np.random.Generator) -> Any:
        number = sample["number"] if isinstance(sample, dict) else sample
        if number == 77:
            raise ZeroDivisionError("a mistake")
        if number % 10 == 0:
            raise DataError("It ends with 0.", reason="bad_columns")
        return number if number % 2 == 0 else None


def careful(numbers: Sequence[int], **options: Any) -> SingleDatasetConfig:
    return SingleDatasetConfig(source=numbers, processor=Careful.Config(), name="numbers", **options)


def test_rows_in_are_rows_out_and_those_under_each_reason(grain_of: Build, graph_rows: Rows) -> None:
    config = careful(
        range(50), on_error="skip", pre_filters=[lambda row: row < 40], post_filters=[lambda row: row != 2]
    )
    dataset = grain_of(config, shuffle=True)
    rows = graph_rows(dataset)
    ledger = graph_ledger(dataset)
    ledger.check()
    assert sorted(rows) == [row for row in range(3, 40) if row % 2 == 0 and row % 10]
    counts = ledger["numbers"].to_dict()
    assert (counts["rows_in"], counts["rows_out"]) == (50, 15)
    assert sum(counts["rows_left_out"].values()) == 35
    assert counts["rows_left_out"]["bad_columns"] == 4
    assert str(ledger).startswith("numbers: 50 rows in, 15 out; ")


def test_an_error_names_the_row_and_its_source(grain_of: Build, graph_rows: Rows) -> None:
    with pytest.raises(DataError, match="^Row 10 of numbers: It ends with 0"):
        graph_rows(grain_of(careful([*range(1, 10), 11, 20])))


def test_a_mistake_in_a_processor_is_raised_whatever_the_policy(grain_of: Build, graph_rows: Rows) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        graph_rows(grain_of(careful([1, 10, 77], on_error="skip")))
    assert "Row 2 of numbers: raised ZeroDivisionError (a mistake)" in raised.value.__notes__[0]


def test_more_rows_with_errors_than_may_be_end_the_run(grain_of: Build, graph_rows: Rows) -> None:
    dataset = grain_of(careful([*range(1, 10), *range(11, 19), 20, 30, 40], on_error="skip", max_error_share=0.1))
    message = (
        "numbers: 3 rows with an error, and max_error_share=0.1 of 20 rows allows 2. Correct them, or raise it. The"
    )
    with pytest.raises(DataError, match=message):
        graph_rows(dataset)


def test_a_row_with_an_error_counts_once_in_all_epochs(grain_of: Build) -> None:
    dataset = grain_of(careful([1, 2, 4, 10, 6], on_error="skip", max_error_share=0.2), repeat=True)
    rows = iter(dataset.to_iter_dataset())
    assert [next(rows) for _ in range(7)] == [2, 4, 6, 2, 4, 6, 2]


def test_rows_with_errors_are_written_to_a_file_once(grain_of: Build, tmp_path: Path) -> None:
    file = tmp_path / "folder" / "refused.jsonl"
    config = careful([2, 10, 4, 20], on_error="quarantine", quarantine_file=str(file))
    rows = iter(grain_of(config, repeat=True).to_iter_dataset())
    assert [next(rows) for _ in range(6)] == [2, 4, 2, 4, 2, 4]
    told = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["source"], line["row"], line["content"]) for line in told] == [("numbers", 1, 10), ("numbers", 3, 20)]
    assert told[0]["error"] == "Row 1 of numbers: It ends with 0."


def test_a_file_that_refused_rows_can_not_be_written_to_is_named(grain_of: Build, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    config = careful([2, 10], on_error="quarantine", quarantine_file=str(tmp_path / "taken" / "refused.jsonl"))
    with pytest.raises(SourceError, match="taken/refused.jsonl: a row that was left out can't be written there"):
        list(grain_of(config).to_iter_dataset())


def test_a_malformed_line_is_named_by_file_and_line_or_left_out(
    grain_of: Build, graph_rows: Rows, tmp_path: Path
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"number": 2}\n{"number": \n{"number": 4}\n')
    source = IndexedJsonlSource.Config(patterns=(str(file),), cache_dir=str(tmp_path / "cache"))
    with pytest.raises(MalformedRow, match=r"^Row 1 of IndexedJsonlSource: .*rows.jsonl.*line 2"):
        graph_rows(grain_of(SingleDatasetConfig(source=source)))
    dataset = grain_of(SingleDatasetConfig(source=source, on_error="skip"))
    assert graph_rows(dataset) == [{"number": 2}, {"number": 4}]
    assert graph_ledger(dataset).nodes[0].rows_left_out == {"malformed_json": 1}


def test_a_stream_with_too_many_errors_says_so_where_it_ends(grain_of: Build) -> None:
    stream = grain.MapDataset.source([2, 10, 4, 20, 6]).to_iter_dataset()
    config = SingleDatasetConfig(
        source=stream, processor=Careful.Config(), on_error="skip", max_error_share=0.3, name="web"
    )
    rows = iter(grain_of(config))
    assert [next(rows) for _ in range(3)] == [2, 4, 6]
    with pytest.raises(DataError, match="web: 2 rows with an error, and max_error_share=0.3 of 5 rows allows 1"):
        next(rows)


def test_the_nodes_of_a_graph_are_told_apart(grain_of: Build, graph_rows: Rows) -> None:
    child = SingleDatasetConfig(source=[1, 2, 3], pre_filters=[lambda row: row > 1])
    dataset = grain_of(DatasetConcatConfig(datasets=[child, child, SingleDatasetConfig(source=[7], name="one")]))
    graph_rows(dataset)
    told = graph_ledger(dataset).to_dict()
    first, second, third = told
    assert (second, third) == (f"{first} (2)", "one")
    assert [counts["rows_out"] for counts in told.values()] == [2, 2, 1]
    with pytest.raises(DataError, match="No node is called 'two'"):
        graph_ledger(dataset)["two"]


def test_counts_that_lose_a_row_are_found() -> None:
    node = NodeLedger("leaky")
    node.took(rows=2)
    node.gave()
    with pytest.raises(DataError, match="leaky took 2 rows, and 1 are accounted for"):
        GraphLedger([node]).check()


def test_one_row_is_no_rows() -> None:
    node = NodeLedger("news")
    node.took(tokens=1)
    node.left_out("too_long", tokens=1)
    assert str(node) == "news: 1 row in, 0 out; 1 token in, 0 out, 0 padding; 1 (1 token) too long"
