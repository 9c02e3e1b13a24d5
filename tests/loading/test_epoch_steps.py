"""Epochs with rows of their own each: a mix goes on where it ended, and the loader's numbers hold."""

from collections import Counter
from typing import Any

import pytest

from torchpipe.datasets import MixDataset, over_epochs
from torchpipe.errors import CheckpointError
from torchpipe.loading import EpochSteps, GlobalSteps, StepLoader, steps_of


def rows(name: str, number: int) -> list[dict[str, Any]]:
    return [{"name": name, "row": row, "labels": [1]} for row in range(number)]


def mix_of(epochs: int, **options: Any) -> Any:
    mix = MixDataset(
        {"large": rows("large", 30), "small": rows("small", 4)}, weights={"large": 2, "small": 1}, **options
    )
    return over_epochs(mix, epochs)


def loader_of(dataset: Any, **options: Any) -> StepLoader:
    steps = steps_of(dataset, global_batch_size=3, seed=5)
    return StepLoader(dataset, steps, batch_size=1, collate_fn=lambda items: items[0], **options)


def given(loader: StepLoader, epochs: int) -> list[tuple[str, int]]:
    batches = (batch for step in loader.until(epochs=epochs) for batch in step.micro_batches)
    return [(batch["name"], batch["row"]) for batch in batches if batch["labels"] != [-100]]


def test_every_row_of_the_larger_source_is_trained_on_over_the_epochs() -> None:
    seen = Counter(given(loader_of(mix_of(4)), 4))
    assert {row for name, row in seen if name == "large"} == set(range(30))
    one = Counter(given(loader_of(mix_of(1)), 1))
    assert len([row for name, row in one if name == "large"]) == 8  # the rest is left for later epochs


def test_a_run_that_is_stopped_goes_on_with_the_same_rows_on_other_ranks() -> None:
    whole = given(loader_of(mix_of(3)), 3)
    first = loader_of(mix_of(3))
    for step in first.until(6):
        assert step.number < 4
    state = first.state_dict()
    ranks = [loader_of(mix_of(3), rank=rank, world_size=2) for rank in range(2)]
    for one in ranks:
        one.load_state_dict(state)
    rest = [given(one, 3) for one in ranks]
    before = given(loader_of(mix_of(3)), 3)[: len(whole) - len(rest[0]) - len(rest[1])]
    assert Counter(before) + Counter(rest[0] + rest[1]) == Counter(whole)


def test_the_numbers_of_steps_are_those_of_all_epochs() -> None:
    steps = EpochSteps([GlobalSteps(num_packs=number, global_batch_size=2) for number in (5, 4, 1)])
    loader = StepLoader([{"labels": [0]}] * 10, steps, batch_size=1, collate_fn=list)
    assert loader.num_steps(epochs=2) == 5
    assert loader.num_steps(epochs=3, max_steps=4) == 4
    ends = []
    for _ in loader.until():
        if loader.steps_done == 6:
            break
        ends.append(loader.ended_epoch)
    assert ends == [None, None, 0, None, 1]
    assert steps.epoch_of(8) == 1


def test_the_state_of_another_mix_is_refused() -> None:
    state = loader_of(mix_of(2)).state_dict()
    loader_of(mix_of(5)).load_state_dict(state)  # more epochs are no other run
    with pytest.raises(CheckpointError, match="plan was"):
        loader_of(mix_of(2, seed=1)).load_state_dict(state)
