import pytest

from torchpipe.data.columns import cell, resolve_column_map, text_cell
from torchpipe.errors import ColumnError, ConfigError, DataError


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


def test_a_column_that_an_option_names_is_not_sent_to_a_column_map():
    with pytest.raises(
        ColumnError, match=r"no column 'txt'; it has 'text'\. Did you mean 'text'\? Name the right one under column\.$"
    ):
        text_cell({"text": "a"}, "txt", None)
