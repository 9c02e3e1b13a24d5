"""Pairs seen as samples: both sides, in order, with the labels that every data set of samples has."""

from typing import Any

import pytest

from torchpipe.data import next_token_labels
from torchpipe.datasets import PairSides, count_samples, preference_dataset
from torchpipe.errors import DataError
from torchpipe.models.tiny import tiny_tokenizer

ROWS = [
    {
        side: [{"role": "user", "content": f"{number}?"}, {"role": "assistant", "content": word * (number + 1)}]
        for side, word in (("chosen", "yes "), ("rejected", "no "))
    }
    for number in range(4)
]


def pairs(**options: Any) -> Any:
    return preference_dataset(tiny_tokenizer(max_seq_len=64), source=ROWS, **options)


def test_sides_stand_one_after_the_other_with_shifted_labels() -> None:
    found, sides = pairs(), PairSides(pairs())
    assert len(sides) == 8
    for number in range(4):
        for place, side in enumerate(("chosen", "rejected")):
            sample = sides[2 * number + place]
            tokens, labels = found[number][f"{side}_input_ids"], found[number][f"{side}_labels"]
            assert sample["tokens"].tolist() == tokens
            expected = next_token_labels(tokens, [label == -100 for label in labels])
            assert sample["labels"].tolist() == expected.tolist()


def test_stored_pairs_have_the_same_sides(tmp_path: Any) -> None:
    stored = PairSides(pairs(cache=True, cache_dir=str(tmp_path)))
    plain = PairSides(pairs())
    for index in range(8):
        assert {key: values.tolist() for key, values in stored[index].items()} == {
            key: values.tolist() for key, values in plain[index].items()
        }
    counted = count_samples(plain)
    assert not hasattr(plain, "counts")
    assert (stored.counts.rows, stored.counts.trained_tokens) == (counted.rows, counted.trained_tokens)


def test_rows_that_were_left_out_before_are_counted() -> None:
    counts = count_samples(PairSides(pairs(filter_fn=is_long)))
    assert counts.rows == 6
    assert counts.filtered_rows == 1


def is_long(row: dict[str, Any]) -> bool:
    return len(row["chosen"][1]["content"]) > 4


@pytest.mark.parametrize(("item", "held"), [({"tokens": [1], "labels": [1]}, "tokens, labels"), ([1], "a list")])
def test_an_item_that_is_no_pair_is_refused(item: Any, held: str) -> None:
    with pytest.raises(DataError, match=f"has chosen_input_ids and chosen_labels; this one is {held}. Use"):
        PairSides([item])[0]
