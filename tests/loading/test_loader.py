"""The loader: each pack once, the same batches as never stopped, on any number of ranks and workers."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from torchpipe.errors import CheckpointError, ConfigError, DataError
from torchpipe.loading import GlobalSteps, Step, StepLoader, StepSampler, WithPadding

Make = Callable[[int], Any]
ALL = (1, 2, 3, 4, 8)
SOME = ((2, 1), (1, 3), (4, 2), (2, 8))


def stacked(items: Sequence[dict[str, np.ndarray]]) -> dict[str, torch.Tensor]:
    return {key: torch.from_numpy(np.stack([item[key] for item in items])) for key in items[0]}


def as_tensors(batch: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {key: torch.from_numpy(values) for key, values in batch.items()}


def loaders(
    packs: Any, world_size: int, *, global_batch_size: int = 6, batch_size: int = 2, seed: int = 0, **options: Any
) -> list[StepLoader]:
    steps = GlobalSteps.of(packs, global_batch_size=global_batch_size, seed=seed)
    return [
        StepLoader(packs, steps, batch_size=batch_size, collate_fn=stacked, rank=rank, world_size=world_size, **options)
        for rank in range(world_size)
    ]


def bytes_of(step: Step) -> list[dict[str, tuple[str, bytes]]]:
    """Everything in a step's batches, to compare bit for bit."""
    return [bytes_of_batch(batch) for batch in step.micro_batches]


def bytes_of_batch(batch: dict[str, torch.Tensor]) -> dict[str, tuple[str, bytes]]:
    return {key: (f"{value.dtype} {tuple(value.shape)}", value.numpy().tobytes()) for key, value in batch.items()}


def first_tokens(steps: Sequence[Step]) -> list[int]:
    """The packs that all ranks have in a step; padding left out."""
    batches = [batch for step in steps for batch in step.micro_batches]
    return sorted(
        int(row[0]) // 100
        for batch in batches
        for row, labels in zip(batch["tokens"], batch["labels"], strict=True)
        if (labels >= 0).any()
    )


@pytest.mark.parametrize("world_size", ALL)
def test_all_ranks_together_read_each_pack_once_an_epoch(make_packs: Make, world_size: int) -> None:
    packs = make_packs(26)
    ranks = loaders(packs, world_size)
    assert len(ranks[0]) == 5
    for epoch in range(2):
        by_rank = [list(loader) for loader in ranks]
        assert {len(steps) for steps in by_rank} == {5}
        assert {len(step.micro_batches) for steps in by_rank for step in steps} == {ranks[0].accumulation}
        assert {len(batch["tokens"]) for steps in by_rank for step in steps for batch in step.micro_batches} == {2}
        seen = [first_tokens(of_step) for of_step in zip(*by_rank, strict=True)]
        assert sorted(pack for packs in seen for pack in packs) == list(range(26))
        assert [(step.epoch, step.number, step.num_packs) for step in by_rank[-1]] == [
            (epoch, number, 6 if number < 4 else 2) for number in range(5)
        ]


@pytest.mark.parametrize("world_size", [1, 4])
def test_trained_tokens_of_the_whole_step_are_known_beforehand(make_packs: Make, world_size: int) -> None:
    by_rank = [list(loader) for loader in loaders(make_packs(26), world_size)]
    for of_step in zip(*by_rank, strict=True):
        trained = sum(int((batch["labels"] >= 0).sum()) for step in of_step for batch in step.micro_batches)
        assert {step.trained_tokens for step in of_step} == {trained}
        assert {step.trained_weight for step in of_step} == {float(trained)}


def test_weights_of_a_step_are_summed_where_packs_have_them(make_packs: Make) -> None:
    packs = make_packs(4)
    packs.weight_sums = np.array([0.5, 1.0, 2.0, 0.25])
    (step,) = loaders(packs, 1)[0]
    assert (step.trained_tokens, step.trained_weight) == (1 + 2 + 3 + 4, 3.75)


def test_a_data_set_that_does_not_know_says_none() -> None:
    packs = [{"tokens": np.array([1]), "labels": np.array([1])}] * 3
    (step,) = loaders(packs, 1)[0]
    assert (step.trained_tokens, step.trained_weight) == (None, None)


def test_a_data_set_that_does_not_speak_of_weights_may_have_some(make_packs: Make) -> None:
    packs = make_packs(4)
    del packs.weight_sums
    (step,) = loaders(packs, 1)[0]
    assert (step.trained_tokens, step.trained_weight) == (1 + 2 + 3 + 4, None)


def check_resuming(packs: Any, before: int, after: int, stops: Sequence[int], **options: Any) -> None:
    """Stops ``before`` ranks after so many steps and goes on with ``after`` ranks, each time from the state alone."""
    whole_before = [list(loader) + list(loader) for loader in loaders(packs, before)]
    whole = [list(loader) + list(loader) for loader in loaders(packs, after)]
    expected = [[bytes_of(step) for step in steps] for steps in whole]
    for one, two in zip(zip(*whole_before, strict=True), zip(*whole, strict=True), strict=True):
        assert first_tokens(one) == first_tokens(two)
    for stop in stops:
        states = []
        for loader in loaders(packs, before, **options):
            if stop == 0:
                states.append(loader.state_dict())
            while loader.steps_done < stop:
                for _ in loader:
                    if loader.steps_done == stop:
                        states.append(loader.state_dict())
                        break
        assert all(state == states[0] for state in states)
        state = json.loads(json.dumps(states[0]))
        for rank, loader in enumerate(loaders(packs, after, **options)):
            loader.load_state_dict(state)
            assert loader.steps_done == stop
            rest = list(loader)
            if loader.steps_done < len(expected[rank]):
                rest += list(loader)
            assert [bytes_of(step) for step in rest] == expected[rank][stop:]


@pytest.mark.parametrize(("before", "after"), [*SOME, (3, 3)])
def test_resumed_batches_are_those_of_a_run_that_never_stopped(make_packs: Make, before: int, after: int) -> None:
    check_resuming(make_packs(50), before, after, range(0, 18, 5))


@pytest.mark.soak
@pytest.mark.parametrize("before", ALL)
@pytest.mark.parametrize("after", ALL)
@pytest.mark.parametrize("num_packs", [50, 54])
def test_resumed_at_every_step_between_all_numbers_of_ranks(
    make_packs: Make, before: int, after: int, num_packs: int
) -> None:
    check_resuming(make_packs(num_packs), before, after, range(18))


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_workers_read_ahead_and_change_nothing(make_packs: Make, before: int, after: int) -> None:
    check_resuming(make_packs(50), before, after, [7], num_workers=2, prefetch_factor=3)


@pytest.mark.soak
@pytest.mark.parametrize("num_workers", [1, 2])
def test_workers_change_nothing_wherever_the_run_is_stopped(make_packs: Make, num_workers: int) -> None:
    check_resuming(make_packs(50), 2, 3, range(18), num_workers=num_workers)


def test_batches_read_at_once_are_those_read_one_by_one(make_packs: Make) -> None:
    packs = make_packs(26)
    at_once = loaders(packs, 3, collate_batch=as_tensors)
    for one, other in zip(at_once, loaders(packs, 3), strict=True):
        assert [bytes_of(step) for step in one] == [bytes_of(step) for step in other]


class ReadTogether:
    """Packs of which a loader should read five at a time."""

    num_read_at_once = 5

    def __init__(self, packs: Any) -> None:
        self.packs = packs
        self.asked: list[list[int]] = []

    def __len__(self) -> int:
        return len(self.packs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.packs, name)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        self.asked.append(list(indices))
        return [self.packs[index] for index in indices]


@pytest.mark.parametrize("read_ahead", [0, 1, 3])
def test_items_of_several_batches_that_are_read_together_make_the_same_batches(
    make_packs: Make, read_ahead: int
) -> None:
    check_resuming(ReadTogether(make_packs(50)), 2, 3, range(0, 18, 5), read_ahead=read_ahead)
    for one, other in zip(loaders(ReadTogether(make_packs(26)), 3), loaders(make_packs(26), 3), strict=True):
        assert [bytes_of(step) for step in one] == [bytes_of(step) for step in other]


def test_items_are_read_together_and_each_batch_is_made_when_it_is_asked_for(make_packs: Make) -> None:
    collated: list[int] = []

    def collate(items: Sequence[Any]) -> int:
        collated.append(len(items))
        return len(items)

    data = ReadTogether(make_packs(7))
    steps = GlobalSteps.of(data, global_batch_size=2, shuffle=False)
    loader = StepLoader(data, steps, batch_size=2, collate_fn=collate, read_ahead=0)
    next(iter(loader))
    assert (data.asked, collated) == ([[0, 1, 2, 3]], [2])
    list(loader)
    assert data.asked[1:] == [[2, 3, 4, 5], [6]], "what was read and not asked for is read again; no pack is -1"


def test_reading_batches_leaves_the_random_stream_alone(make_packs: Make) -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    list(loaders(make_packs(10), 1, num_workers=1)[0])
    assert torch.equal(torch.rand(1), expected)


def test_a_plain_data_loader_takes_the_sampler(make_packs: Make) -> None:
    packs = make_packs(26)
    steps = GlobalSteps.of(packs, global_batch_size=6)
    sampler = StepSampler(steps, batch_size=2, rank=1, world_size=2)
    plain = DataLoader(WithPadding(packs), batch_sampler=sampler, collate_fn=stacked, num_workers=2)  # pyright: ignore[reportArgumentType]
    loader = loaders(packs, 2)[1]
    expected = [batch for _ in range(2) for step in loader for batch in bytes_of(step)]
    assert len(plain) == 10
    found = [batch for _ in range(2) for batch in plain]
    assert [bytes_of_batch(batch) for batch in found] == expected
    again = StepSampler(steps, batch_size=2, rank=1, world_size=2)
    again.load_state_dict(sampler.state_dict(num_batches=5))
    assert again.state_dict(num_batches=0)["step"] == 2
    assert next(iter(again)) == steps.layout(1, 2, world_size=2, batch_size=2)[1, 0].tolist()


# Padding packs


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_a_padding_pack_is_an_item_with_nothing_trained(kind: Callable[[Any], Any]) -> None:
    item = {
        "tokens": kind([1, 2]),
        "labels": kind([2, -100]),
        "chosen_labels": kind([5]),
        "loss_weights": kind([0.5, 2.0]),
        "mask": kind([False, True]),
    }
    data = WithPadding([item, item])
    padding = {key: list(value) for key, value in data[-1].items()}
    assert padding == {
        "tokens": [1, 2],
        "labels": [-100, -100],
        "chosen_labels": [-100],
        "loss_weights": [0.0, 0.0],
        "mask": [True, True],
    }
    assert {type(value) for value in data[-1].values()} == {type(kind([0]))}
    assert list(item["labels"]) == [2, -100], "the item is not changed"
    assert len(data) == 2
    assert data[1] is item


def test_items_are_asked_for_in_one_call_where_the_data_set_can() -> None:
    class Many(list[Any]):
        def __getitems__(self, indices: list[int]) -> list[Any]:
            return [("many", self[index]) for index in indices]

    data = WithPadding(Many([{"labels": [1]}, {"labels": [2]}]))
    padding = {"labels": [-100]}
    assert data.__getitems__([1, -1, 0]) == [("many", {"labels": [2]}), padding, ("many", {"labels": [1]})]
    assert data.__getitems__([1]) == [("many", {"labels": [2]})]


def test_padding_has_the_length_of_its_batch() -> None:
    class Lengths(list[Any]):
        pack_lens = (2, 3, 3)

        def padding_pack(self) -> Any:
            return {"labels": [-100] * 2}

    data = WithPadding(Lengths({"labels": [1] * length} for length in Lengths.pack_lens))
    assert data.__getitems__([1, -1]) == [{"labels": [1, 1, 1]}, {"labels": [-100, -100, -100]}]
    assert data.__getitems__([0, -1]) == [{"labels": [1, 1]}, {"labels": [-100, -100]}]
    assert data.__getitems__([-1, -1]) == [{"labels": [-100, -100]}] * 2


@pytest.mark.parametrize("item", [{"tokens": [1]}, [1, 2]])
def test_items_without_labels_can_not_be_padded(item: Any) -> None:
    with pytest.raises(DataError, match="no padding pack can be made of this data set's items: they have no labels"):
        WithPadding([item])[-1]


# Refusals


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"global_batch_size": 4}, "global_batch_size was 6 and is 4"),
        ({"seed": 1}, "seed was 0 and is 1"),
        ({"balance": "none"}, "plan was 'packs 26, costs [0-9a-f]+' and is 'packs 26'; balance was 'within_step' and"),
        ({"shuffle": False}, "shuffle was True and is False"),
    ],
)
def test_a_state_of_other_steps_is_refused_by_naming_the_field(
    make_packs: Make, options: dict[str, Any], sentence: str
) -> None:
    packs = make_packs(26)
    state = loaders(packs, 1)[0].state_dict()
    loader = StepLoader(
        packs, GlobalSteps.of(packs, **{"global_batch_size": 6, **options}), batch_size=1, collate_fn=stacked
    )
    with pytest.raises(CheckpointError, match=f"belongs to another run: {sentence}"):
        loader.load_state_dict(state)


def test_a_state_of_another_plan_is_refused(make_packs: Make) -> None:
    state = loaders(make_packs(26), 1)[0].state_dict()
    other = make_packs(26)
    other.fingerprint = "other packs"
    with pytest.raises(CheckpointError, match="plan was 'packs 26, costs .*' and is 'other packs, costs"):
        loaders(other, 1)[0].load_state_dict(state)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"version": 2}, "has version 2, and this one reads 1"),
        ({"step": 5}, "has step 5. It is a whole number from 0 on below 5"),
        ({"epoch": -1}, "has epoch -1"),
        ({"step": "0"}, "has step '0'"),
    ],
)
def test_a_damaged_state_is_refused(make_packs: Make, change: dict[str, Any], sentence: str) -> None:
    (loader,) = loaders(make_packs(26), 1)
    with pytest.raises(CheckpointError, match=sentence):
        loader.load_state_dict({**loader.state_dict(), **change})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rank": 2, "world_size": 2}, "rank is 2. With 2 processes it is from 0 to 1"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"world_size": 0}, "world_size is 0"),
        ({"prefetch_factor": 2}, "prefetch_factor has no effect without workers"),
        ({"prefetch_factor": 0, "num_workers": 1}, "prefetch_factor is 0. Give a whole number, 1 or more"),
        ({"num_workers": -1}, "num_workers is -1. Give a whole number, 0 or more"),
        ({"num_workers": True}, "num_workers is True"),
        ({"read_ahead": -1}, "read_ahead is -1. Give a whole number, 0 or more"),
        ({"dataset": [1]}, "The data set has 1 items and the steps 26 packs"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(make_packs: Make, options: dict[str, Any], sentence: str) -> None:
    packs = make_packs(26)
    steps = GlobalSteps.of(packs, global_batch_size=6)
    with pytest.raises(ConfigError, match=sentence):
        StepLoader(**{"dataset": packs, "steps": steps, "batch_size": 1, "collate_fn": stacked, **options})


def test_reading_at_once_needs_a_data_set_that_can() -> None:
    with pytest.raises(ConfigError, match=r"collate_batch is for a data set with batch\(indices\), and list has none"):
        loaders([{"labels": [1]}], 1, collate_batch=as_tensors)


def test_numbers_of_other_packs_are_refused(make_packs: Make) -> None:
    packs = make_packs(26)
    packs.trained_counts = packs.trained_counts[:-1]
    with pytest.raises(ConfigError, match=r"trained_counts is an array \[25\], and it has 26 items"):
        loaders(packs, 1)


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_a_steps_packs_are_known_by_micro_batch_and_padding_is_minus_1(make_packs: Make, world_size: int) -> None:
    for loader in loaders(make_packs(17), world_size, seed=4):
        for step in loader:
            named = loader.packs_of(step)
            assert len(named) == len(step.micro_batches)
            for packs, batch in zip(named, step.micro_batches, strict=True):
                read = [
                    int(tokens[0]) // 100 if (labels >= 0).any() else -1
                    for tokens, labels in zip(batch["tokens"], batch["labels"], strict=True)
                ]
                assert read == packs


def test_the_epoch_that_a_step_ended_is_known_after_it(make_packs: Make) -> None:
    packs = make_packs(7)
    steps = GlobalSteps.of(packs, global_batch_size=3, max_steps=2)
    loader = StepLoader(packs, steps, batch_size=1, collate_fn=stacked)
    assert loader.ended_epoch is None
    assert [loader.ended_epoch for _ in loader.until(epochs=2)] == [None, 0, None, 1]
    resumed = StepLoader(packs, steps, batch_size=1, collate_fn=stacked)
    resumed.load_state_dict(loader.state_dict())
    assert resumed.ended_epoch == 1
