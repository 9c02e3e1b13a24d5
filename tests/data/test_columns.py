from pathlib import Path
from typing import Any

import pytest

from torchpipe.data import ChosenRejectedToMessages, DetectedToMessages, LabelledToMessages
from torchpipe.data.columns import cell, resolve_column_map, text_cell
from torchpipe.data.row_content import content_digest
from torchpipe.datasets import messages_dataset
from torchpipe.errors import ColumnError, ConfigError, DataError
from torchpipe.models.tiny import tiny_tokenizer


def test_names_stand_for_themselves_without_a_map():
    assert resolve_column_map(None, required=["a"], optional=["b"]) == {"a": "a", "b": "b"}
    assert resolve_column_map({}, required=["a"]) == {"a": "a"}


def test_a_map_is_checked_when_it_is_made():
    with pytest.raises(ConfigError, match=r"has the key 'inptu'; it may have 'input', 'output'.*mean 'input'"):
        resolve_column_map({"inptu": "q"}, required=["input", "output"])
    with pytest.raises(ConfigError, match="it has none for 'output'"):
        resolve_column_map({"input": "q"}, required=["input", "output"])


def test_a_missing_column_is_a_key_error_whose_text_is_a_sentence():
    with pytest.raises(KeyError) as raised:
        cell({"question": "q"}, "qestion", "input")
    assert isinstance(raised.value, ColumnError)
    assert str(raised.value) == (
        "The row has no column 'qestion'; it has 'question'. Did you mean 'question'? "
        "Name the right one in column_map, under 'input'."
    )


def test_a_long_value_is_shown_short():
    with pytest.raises(DataError, match=r"holds a list \(\[0, 1, 2, .{0,40}\.\.\.\), not text"):
        text_cell({"a": list(range(1000))}, "a", "input")


@pytest.mark.parametrize(
    ("row", "told", "reason"),
    [(None, "null", "empty"), (["q"], "a list", "bad_columns"), ("q", "a str", "bad_columns")],
)
def test_a_row_without_columns_is_refused_as_data(row: Any, told: str, reason: str):
    for read in (
        lambda: cell(row, "q", "input"),
        lambda: DetectedToMessages()(row),
        lambda: ChosenRejectedToMessages()(row),
        lambda: LabelledToMessages()(row),
        lambda: content_digest(row),
        lambda: content_digest(row, ["q"]),
    ):
        with pytest.raises(ColumnError, match=f"The row is {told}, and a row is a dict of columns") as raised:
            read()
        assert raised.value.reason == reason


def test_rows_without_columns_are_left_out_and_counted_by_a_policy(tmp_path: Path):
    rows: Any = [None, {"question": "?", "answer": "!"}, "text"]
    dataset: Any = messages_dataset(tiny_tokenizer(), source=rows, cache=True, cache_dir=str(tmp_path), on_error="skip")
    assert dataset.ledger.as_dict() == {"read": 3, "used": 1, "empty": 1, "bad_columns": 1}


def test_a_dict_of_keys_of_two_kinds_is_refused_where_rows_are_compared():
    with pytest.raises(ColumnError, match="The row can't be compared: .* Keys of a dict are texts"):
        content_digest({"a": {1: 2, "b": 3}})


def test_a_column_that_an_option_names_is_not_sent_to_a_column_map():
    with pytest.raises(
        ColumnError, match=r"no column 'txt'; it has 'text'\. Did you mean 'text'\? Name the right one under column\.$"
    ):
        text_cell({"text": "a"}, "txt", None)
