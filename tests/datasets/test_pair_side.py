"""One side of a pair as a sample, with the labels that every sample has."""

from pathlib import Path
from typing import Any

import pytest

from torchpipe.data import next_token_labels
from torchpipe.datasets import preference_dataset, side_of
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


@pytest.mark.parametrize("side", ["chosen", "rejected"])
def test_labels_are_shifted_and_stored_pairs_have_the_same(tmp_path: Path, side: str) -> None:
    stored = pairs(cache=True, cache_dir=str(tmp_path))
    for number, pair in enumerate(pairs()):
        tokens, mask = pair[f"{side}_input_ids"], [label == -100 for label in pair[f"{side}_labels"]]
        expected = {"tokens": tokens, "labels": next_token_labels(tokens, mask).tolist()}
        for item in (pair, stored[number]):
            assert {key: values.tolist() for key, values in side_of(item, side).items()} == expected


@pytest.mark.parametrize(("item", "held"), [({"tokens": [1], "labels": [1]}, "'tokens', 'labels'"), ([1], "a list")])
def test_an_item_that_is_no_pair_is_refused(item: Any, held: str) -> None:
    with pytest.raises(DataError, match=rf"'chosen_input_ids', 'chosen_labels'; this one is {held}\. Use"):
        side_of(item, "chosen")
