import pytest

from torchpipe.data import TrainOn
from torchpipe.data.train_on import as_train_on
from torchpipe.errors import ConfigError


def test_all_counts_unless_it_is_taken_away():
    assert TrainOn().is_all
    assert as_train_on(None) == as_train_on({}) == TrainOn()
    only = as_train_on({"reasoning": False, "tool_calls": False})
    assert [only.trains(part) for part in ("reasoning", "tool_calls", "answer")] == [False, False, True]
    assert not only.is_all


@pytest.mark.parametrize(
    ("turn_end", "middle", "last"), [("all", True, True), ("last", False, True), ("none", False, False)]
)
def test_the_turn_end_counts_in_all_the_last_or_no_turns(turn_end: str, middle: bool, last: bool):
    chosen = TrainOn(turn_end=turn_end)  # pyright: ignore[reportArgumentType]
    assert (chosen.ends(is_last=False), chosen.ends(is_last=True)) == (middle, last)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"answers": False}, "train_on has 'answers'; it may have .*mean 'answer'"),
        ({"answer": "no"}, "train_on answer is 'no'"),
        ({"turn_end": "lst"}, "train_on turn_end is 'lst'.*mean 'last'"),
        (["answer"], "It is a table that may have"),
    ],
)
def test_what_is_no_such_table_is_refused(given: object, sentence: str):
    with pytest.raises(ConfigError, match=sentence):
        as_train_on(given)  # pyright: ignore[reportArgumentType]
