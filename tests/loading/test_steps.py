"""Steps: every pack once an epoch, whatever the number of ranks, and by nothing but the numbers given."""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.errors import ConfigError
from torchpipe.loading import GlobalSteps, compare_balance, epoch_order, measure_spread

BALANCES = ("none", "within_step", "steps")


def steps_of(num_packs: int, global_batch_size: int, **options: Any) -> GlobalSteps:
    return GlobalSteps(num_packs=num_packs, global_batch_size=global_batch_size, **options)


def some_costs(num_packs: int, seed: int = 0) -> np.ndarray:
    """Most packs cost about the same, and some up to 1.5 times as much."""
    rng = np.random.default_rng(seed)
    return (1_000_000 * (1 + 0.5 * rng.beta(0.3, 1.0, num_packs))).astype(np.int64)


@st.composite
def any_steps(draw: st.DrawFn) -> GlobalSteps:
    num_packs = draw(st.integers(1, 60))
    arrays = {
        name: draw(st.none() | st.lists(values, min_size=num_packs, max_size=num_packs))
        for name, values in (("costs", st.integers(0, 9)), ("pack_lens", st.sampled_from([8, 16, 32])))
    }
    return steps_of(
        num_packs,
        draw(st.integers(1, 20)),
        seed=draw(st.integers(0, 5)),
        shuffle=True,
        balance=draw(st.sampled_from(BALANCES)),
        **{name: None if values is None else np.array(values) for name, values in arrays.items()},
    )


def layouts(steps: GlobalSteps, epoch: int, world_size: int, batch_size: int) -> Iterator[np.ndarray]:
    return (steps.layout(epoch, k, world_size=world_size, batch_size=batch_size) for k in range(len(steps)))


@given(any_steps(), st.integers(0, 3), st.integers(1, 8), st.integers(1, 4))
def test_every_pack_is_trained_on_once_an_epoch(
    steps: GlobalSteps, epoch: int, world_size: int, batch_size: int
) -> None:
    accumulation = -(-steps.global_batch_size // (world_size * batch_size))
    seen: list[int] = []
    for step, layout in enumerate(layouts(steps, epoch, world_size, batch_size)):
        assert layout.shape == (world_size, accumulation, batch_size)
        assert layout.dtype == np.int64
        packs = layout[layout >= 0].tolist()
        assert sorted(packs) == sorted(steps.packs(epoch, step).tolist())
        assert 0 < len(packs) <= steps.global_batch_size
        seen += packs
    assert sorted(seen) == list(range(steps.num_packs))


@given(any_steps(), st.integers(0, 3))
def test_packs_of_one_step_have_one_length(steps: GlobalSteps, epoch: int) -> None:
    if steps.pack_lens is not None:
        for step in range(len(steps)):
            assert len(set(steps.pack_lens[steps.packs(epoch, step)].tolist())) == 1


@given(any_steps(), st.integers(1, 8), st.integers(1, 4))
def test_padding_stands_behind_the_packs_of_a_micro_batch(steps: GlobalSteps, world_size: int, batch_size: int) -> None:
    for layout in layouts(steps, 0, world_size, batch_size):
        padding = layout == -1
        assert (padding[..., 1:] >= padding[..., :-1]).all()
        filled = (~padding).sum(axis=(0, 2))  # micro-batches are filled one after another, so that the rest is skipped
        assert (filled[:-1][filled[1:] > 0] == world_size * batch_size).all()


@pytest.mark.parametrize("balance", BALANCES)
def test_steps_are_a_pure_function_of_the_numbers(balance: str) -> None:
    def made(**changes: Any) -> list[list[int]]:
        options = {"seed": 3, "balance": balance, "costs": some_costs(50), **changes}
        steps = steps_of(50, 8, **options)
        return [steps.packs(1, step).tolist() for step in reversed(range(len(steps)))]

    assert made() == made()
    assert made(seed=4) != made()
    assert len(made()[0]) == 2, "the last step is the shorter one"


@pytest.mark.parametrize("balance", BALANCES)
def test_epochs_differ(balance: Any) -> None:
    steps = steps_of(50, 8, balance=balance, costs=some_costs(50))
    assert len({tuple(steps.packs(epoch, 0).tolist()) for epoch in range(5)}) == 5


def test_within_step_never_changes_which_packs_form_a_step() -> None:
    plain, balanced = (steps_of(50, 8, balance=balance, costs=some_costs(50)) for balance in ("none", "within_step"))
    order = epoch_order(50, seed=0, epoch=2, shuffle=True)
    for step in range(len(plain)):
        assert plain.packs(2, step).tolist() == balanced.packs(2, step).tolist()
        assert plain.packs(2, step).tolist() == order[8 * step : 8 * (step + 1)].tolist()


@pytest.mark.parametrize("balance", ["none", "within_step"])
def test_one_rank_and_one_micro_batch_keep_the_order(balance: Any) -> None:
    steps = steps_of(20, 4, balance=balance, costs=some_costs(20))
    order = epoch_order(20, seed=0, epoch=0, shuffle=True)
    rows = [layout.tolist() for layout in layouts(steps, 0, 1, 4)]
    assert rows == order.reshape(5, 1, 1, 4).tolist()


def test_as_they_come() -> None:
    steps = steps_of(5, 2, shuffle=False)
    assert [steps.packs(epoch, 1).tolist() for epoch in (0, 1)] == [[2, 3], [2, 3]]


@given(st.integers(0, 20), st.integers(1, 6), st.integers(1, 4), st.integers(1, 3))
def test_balanced_ranks_differ_by_no_more_than_the_costliest_pack(
    seed: int, world_size: int, accumulation: int, batch_size: int
) -> None:
    size = world_size * accumulation * batch_size
    steps = steps_of(size, size, costs=some_costs(size, seed))
    assert steps.costs is not None
    layout = steps.layout(0, 0, world_size=world_size, batch_size=batch_size)
    totals = steps.costs[layout].sum(axis=(1, 2))
    # Each micro-batch's packs are neighbours in the order of costs.
    assert totals.max() - totals.min() <= steps.costs.max() - steps.costs.min()
    micro_batches = [np.sort(steps.costs[layout[:, number]].reshape(-1)) for number in range(accumulation)]
    assert all(one[0] >= two[-1] for one, two in pairwise(micro_batches))


def test_balance_beats_chance_over_64_ranks() -> None:
    num_packs = 64 * 8 * 12
    costs = some_costs(num_packs)
    found = compare_balance(
        steps_of(num_packs, 64 * 8, costs=costs),
        world_size=64,
        batch_size=1,
        num_documents=np.maximum(1, 20 - costs // 80_000),
        num_tokens=np.full(num_packs, 32_768),
    )
    assert found["random"].worst >= 1.10
    assert found["none"].worst >= 1.10
    assert found["within_step"].worst <= 1.01
    assert found["steps"].worst <= 1.01
    assert found["steps"].worst_step < 1.001 < found["within_step"].worst_step
    assert found["within_step"].worst_micro_batch < found["none"].worst_micro_batch
    for one in found.values():
        assert one.worst >= one.mean >= 1.0
        assert one.length_correlation is not None
    assert measure_spread(steps_of(num_packs, 512), world_size=64, batch_size=1).worst == 1.0, (
        "without costs all are equal"
    )


def test_a_spread_is_of_the_costs_and_of_as_many_steps_as_asked_for() -> None:
    steps = steps_of(8, 2, shuffle=False, balance="none", costs=np.ones(8, dtype=np.int64))
    costs = np.array([1, 1, 3, 1, 1, 1, 9, 1])
    found = measure_spread(steps, world_size=2, batch_size=1, costs=costs)
    assert (found.worst, found.num_steps) == (1.8, 4)
    some = measure_spread(steps, world_size=2, batch_size=1, costs=costs, max_steps=2)  # steps 0 and 2
    assert (some.worst, some.num_steps) == (1.0, 2)
    assert measure_spread(steps, world_size=2, batch_size=1).worst == 1.0


def test_stratified_steps_hold_packs_of_every_cost() -> None:
    costs = np.arange(40)
    steps = steps_of(40, 4, balance="steps", costs=costs)
    for step in range(10):
        assert sorted((steps.packs(0, step) // 10).tolist()) == [0, 1, 2, 3]


def test_the_identity_names_what_decides_the_steps() -> None:
    plain = steps_of(8, 4)
    assert json.loads(json.dumps(plain.identity())) == {
        "plan": "8 packs",
        "global_batch_size": 4,
        "seed": 0,
        "shuffle": True,
        "balance": "within_step",
    }
    others = (
        {"plan": "a plan"},
        {"costs": np.arange(8)},
        {"costs": np.arange(1, 9)},
        {"pack_lens": np.array([4] * 4 + [8] * 4)},
        {"seed": 1},
        {"shuffle": False},
    )
    identities = [plain.identity(), *(steps_of(8, 4, **other).identity() for other in others)]
    assert all(one != two for number, one in enumerate(identities) for two in identities[:number])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"num_packs": 0}, "nothing to train on: the data set is empty, or no row of it was kept"),
        ({"num_packs": 1.5}, "num_packs is 1.5. Give a whole number, 1 or more"),
        ({"global_batch_size": 0}, "global_batch_size is 0"),
        ({"max_steps": 0}, "max_steps is 0. Give a whole number, 1 or more"),
        ({"seed": -1}, "seed is -1. Give a whole number, 0 or more"),
        ({"balance": "step"}, "balance is 'step'. It is one of 'none', 'within_step', 'steps'. Did you mean 'steps'"),
        ({"balance": "steps", "shuffle": False}, "chooses which packs form a step, and shuffle=False keeps them"),
        ({"costs": np.ones(4)}, r"costs is an array \[4\] of float64. Give a whole number, .* each of the 4 packs"),
        ({"costs": np.array([1, 2])}, r"costs is an array \[2\]"),
        ({"pack_lens": np.array([1, 2, 3, -4])}, "pack_lens is an array"),
    ],
)
def test_impossible_numbers_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        GlobalSteps(**{"num_packs": 4, "global_batch_size": 2, **options})


def test_a_step_beyond_the_epoch_is_an_index_error() -> None:
    with pytest.raises(IndexError, match="Step 2 of epoch 0 was asked for, and it has 2 steps"):
        steps_of(4, 2).packs(0, 2)


def test_an_epoch_of_at_most_so_many_steps_has_others_in_each_epoch() -> None:
    whole, cut = steps_of(20, 4), steps_of(20, 4, max_steps=2)
    assert (len(whole), len(cut), cut.num_steps) == (5, 2, 2)
    assert not cut.has(0, 2)
    for epoch in (0, 1):
        assert [cut.packs(epoch, step).tolist() for step in (0, 1)] == [
            whole.packs(epoch, step).tolist() for step in (0, 1)
        ]
    assert cut.packs(0, 0).tolist() != cut.packs(1, 0).tolist()
    assert len(steps_of(20, 4, max_steps=9)) == 5
    assert cut.identity() == {**whole.identity(), "max_steps": 2}
    with pytest.raises(IndexError, match="Step 2 of epoch 0 was asked for, and it has 2 steps"):
        cut.packs(0, 2)
