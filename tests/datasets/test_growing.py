"""Training on a store while it is built: the same batches as over the finished store, wherever a run is stopped."""

import gc
import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from torchpipe.data import padded_collate_packed
from torchpipe.data.ledger import SampleCounts
from torchpipe.datasets import ConcatDataset, GrowingPackedDataset, PackedDataset, chat_dataset
from torchpipe.errors import CheckpointError, ConfigError, DataError
from torchpipe.loading import ShardSteps, Step, StepLoader, steps_of
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.store.build import build_store

CAPACITY, SHARD_ROWS, PACKS_A_STEP = 32, 40, 6
Grown = Callable[..., GrowingPackedDataset]


@pytest.fixture
def grown(tmp_path: Path) -> Iterator[Grown]:
    """Function (recipe, cache=, **options) -> a data set that is closed at the end of the test."""
    made: list[GrowingPackedDataset] = []

    def make(recipe: Any, *, cache: str = "cache", **options: Any) -> GrowingPackedDataset:
        options = {"strategy": "best_fit_decreasing", "num_proc": 1, "shard_rows": SHARD_ROWS, **options}
        made.append(GrowingPackedDataset(recipe, max_seq_len=CAPACITY, cache_dir=tmp_path / cache, **options))
        return made[-1]

    yield make
    for dataset in made:
        dataset.close()


def loader_of(dataset: Any, *, rank: int = 0, world_size: int = 1, **options: Any) -> StepLoader:
    return StepLoader(
        dataset,
        steps_of(dataset, global_batch_size=PACKS_A_STEP, seed=3),
        batch_size=2,
        collate_fn=partial(padded_collate_packed, mask="ids"),  # pyright: ignore[reportArgumentType]
        rank=rank,
        world_size=world_size,
        **options,
    )


def bytes_of(step: Step) -> list[Any]:
    """Everything in a step, to compare bit for bit."""
    batches = [
        {key: value.numpy().tobytes() for key, value in batch.items() if key != "mask"} for batch in step.micro_batches
    ]
    return [step.epoch, step.number, step.num_packs, step.trained_tokens, step.trained_weight, batches]


def spans_of(dataset: GrowingPackedDataset, packs: Sequence[int]) -> list[tuple[int, ...]]:
    """The tokens of each document of some packs."""
    found = []
    for pack in packs:
        item = dataset[pack]
        ends = item["seq_lens"].cumsum(0).tolist()
        documents = [tuple(item["tokens"][start:stop].tolist()) for start, stop in zip([0, *ends], ends, strict=False)]
        found += [document for document in documents if any(document)]
    return sorted(found)


@pytest.fixture
def finished(toy: SimpleNamespace, grown: Grown, tmp_path: Path) -> GrowingPackedDataset:
    """The toy rows, all of them tokenised beforehand."""
    build_store(toy.ToyRecipe(), cache_dir=tmp_path / "finished", shard_rows=SHARD_ROWS)
    dataset = grown(toy.ToyRecipe(), cache="finished")
    assert dataset.is_there(None)
    return dataset


def test_a_run_during_the_build_has_the_batches_of_one_after_it(
    toy: SimpleNamespace, grown: Grown, finished: GrowingPackedDataset
) -> None:
    growing = grown(toy.ToyRecipe(seconds_a_row=0.002), num_proc=2)
    loader = loader_of(growing)
    first = next(loader.until(1))
    assert not growing.is_there(None)
    assert (loader.steps.num_steps, loader.num_steps(epochs=3, max_steps=2)) == (None, None)
    found = [bytes_of(first), *map(bytes_of, loader.until(epochs=3))]
    assert found == [bytes_of(step) for step in loader_of(finished).until(epochs=3)]
    assert loader.steps.num_steps == len(found) // 3
    assert loader.num_steps(epochs=3, max_steps=10**6) == len(found)
    assert growing.describe() == finished.describe()


def test_an_epoch_has_every_pack_once_the_first_one_shard_by_shard(finished: GrowingPackedDataset) -> None:
    steps = loader_of(finished).steps
    assert isinstance(steps, ShardSteps)
    orders = [np.concatenate([steps.packs(epoch, step) for step in range(len(steps))]) for epoch in range(3)]
    for order in orders:
        assert sorted(order.tolist()) == list(range(len(finished)))
    shards = [[int(np.searchsorted(finished._ends, pack, side="right")) for pack in order] for order in orders]
    assert shards[0] == sorted(shards[0])
    assert shards[1] != sorted(shards[1])
    for of_epoch in shards:  # a shard's packs stay together
        assert sum(one != other for one, other in pairwise(of_epoch)) == max(of_epoch)
    assert len({tuple(order) for order in orders}) == 3
    assert [len(steps.packs(0, step)) for step in range(len(steps))][:-1] == [PACKS_A_STEP] * (len(steps) - 1)
    unshuffled = ShardSteps(finished, global_batch_size=PACKS_A_STEP, shuffle=False)
    assert unshuffled.packs(1, 1).tolist() == list(range(6, 12))


def test_packs_never_cross_shards_and_hold_all_samples(
    toy: SimpleNamespace, finished: GrowingPackedDataset, tmp_path: Path
) -> None:
    whole = PackedDataset(
        build_store(toy.ToyRecipe(), cache_dir=tmp_path / "finished", shard_rows=SHARD_ROWS), max_seq_len=CAPACITY
    )
    expected = sorted(
        tuple(whole._packed.samples.sample(i)["tokens"].tolist())  # pyright: ignore[reportAttributeAccessIssue]
        for i in range(whole.plan.num_samples)
    )
    assert spans_of(finished, range(len(finished))) == [tokens for tokens in expected if any(tokens)]
    assert finished.counts == whole.counts
    sizes = [len(finished.packs_of(shard)) for shard in range(8)]
    assert sum(sizes) == len(finished)
    assert [len(PackedDataset(toy_shard(tmp_path, shard), **finished._options)) for shard in range(8)] == sizes


def toy_shard(tmp_path: Path, shard: int) -> Any:
    from torchpipe.store import TokenStore

    (folder,) = [path for path in (tmp_path / "finished" / "store").iterdir() if path.is_dir()]
    return TokenStore.open_shards(folder, [shard])


def check_resuming(
    half: Callable[[], GrowingPackedDataset],
    then: Callable[[], GrowingPackedDataset],
    expected: list[Any],
    **sizes: int,
) -> None:
    """Stops after each of some steps of a half-built store, and goes on from the state alone."""
    before, after = sizes.pop("before", 1), sizes.pop("after", 1)
    for stop in (0, 2, 4):
        states = []
        for rank in range(before):
            loader = loader_of(half(), rank=rank, world_size=before, **sizes)
            for _ in loader.until(stop):
                pass
            assert not loader.steps.is_complete
            states.append(loader.state_dict())
        assert all(state == states[0] for state in states)
        for rank in range(after):
            loader = loader_of(then(), rank=rank, world_size=after, **sizes)
            loader.load_state_dict(json.loads(json.dumps(states[0])))
            assert loader.steps_done == stop
            count = None if loader.steps.is_complete else 4 - stop
            found = [bytes_of(step) for step in islice(loader.until(epochs=2), count)]
            assert found == expected[rank][stop : None if count is None else stop + count]


@pytest.mark.parametrize(
    "sizes", [{}, {"before": 1, "after": 2}, {"before": 2, "after": 1, "num_workers": 1}], ids=["1", "1-2", "2-1"]
)
@pytest.mark.parametrize("is_finished", [False, True], ids=["half", "finished"])
def test_a_stopped_run_goes_on_with_the_batches_that_would_have_come(
    toy: SimpleNamespace,
    grown: Grown,
    finished: GrowingPackedDataset,
    tmp_path: Path,
    sizes: dict[str, int],
    is_finished: bool,
) -> None:
    half = partial(grown, toy.ToyRecipe(gate=str(tmp_path / "gate")))  # rows from 100 on are not tokenised
    expected = [
        [bytes_of(step) for step in loader_of(finished, rank=rank, world_size=sizes.get("after", 1)).until(epochs=2)]
        for rank in range(sizes.get("after", 1))
    ]
    check_resuming(half, (lambda: finished) if is_finished else half, expected, **sizes)


def test_a_state_at_the_end_of_what_was_known_goes_on_with_the_next_epoch(
    toy: SimpleNamespace, grown: Grown, finished: GrowingPackedDataset, tmp_path: Path
) -> None:
    """One shard, all of whose steps were done before it was known that there is no other."""
    (tmp_path / "gate").touch()
    steps = loader_of(finished).steps
    loader = loader_of(finished)
    loader._position = (0, len(steps))
    state = {**loader.state_dict(), "epoch": 0, "step": len(steps)}
    loader.load_state_dict(state)
    assert loader.steps_done == len(steps)
    assert [step.epoch for step in loader.until(epochs=1)] == []
    assert next(iter(loader)).epoch == 1
    with pytest.raises(CheckpointError, match=rf"has step {len(steps) + 1}. It is a whole number from 0 on below"):
        loader.load_state_dict({**state, "step": len(steps) + 1})


def test_a_bad_row_comes_after_the_steps_before_it_and_the_run_goes_on_once_it_is_mended(
    toy: SimpleNamespace, grown: Grown, finished: GrowingPackedDataset
) -> None:
    loader = loader_of(grown(toy.ToyRecipe(bad_rows=(170,))))
    found = []
    with pytest.raises(DataError, match=r"^Row 170 of toys: it is bad\.$"):
        found.extend(map(bytes_of, loader.until(epochs=1)))
    again = loader_of(grown(toy.ToyRecipe()))
    again.load_state_dict(loader.state_dict())
    assert len(found) == again.steps_done > 0
    found += map(bytes_of, again.until(epochs=1))
    assert again.steps_done == len(again.steps)
    assert found == [bytes_of(step) for step in loader_of(finished)]


def test_a_state_is_refused_where_rows_that_were_read_have_changed(
    toy: SimpleNamespace, grown: Grown, finished: GrowingPackedDataset
) -> None:
    loader = loader_of(finished)
    list(loader.until(7))
    state = loader.state_dict()
    assert state["shards"] == 4

    class Changed(toy.ToyRows):
        def samples_of(self, row: int) -> Any:
            return super().samples_of(row + (row == self.changed))

    class ChangedRecipe(toy.ToyRecipe):
        def open(self) -> Any:
            rows = Changed(self)
            rows.changed = int(self.extra)
            return rows

    loader_of(grown(ChangedRecipe(extra="163"))).load_state_dict(state)  # a row of shard 4, not read yet
    with pytest.raises(CheckpointError, match="of the rows that it was trained on, which fill the first 4 shards"):
        loader_of(grown(ChangedRecipe(extra="3"))).load_state_dict(state)
    with pytest.raises(CheckpointError, match="plan was 'by_shard, 300 rows' and is 'by_shard, 301 rows'"):
        loader_of(grown(toy.ToyRecipe(num_rows=301))).load_state_dict(state)
    with pytest.raises(CheckpointError, match="plan was 'by_shard, 300 rows' and is '"):
        loader_of(finished.first_part).load_state_dict(state)


def test_a_check_refuses_a_shard_before_it_is_trained_on(toy: SimpleNamespace, grown: Grown) -> None:
    seen: list[int] = []

    def check(counts: SampleCounts) -> None:
        seen.append(counts.largest_token_id)
        if counts.largest_token_id > 800:
            raise ConfigError("too large")

    dataset = grown(toy.ToyRecipe())
    dataset.check_with(check)
    read: list[int] = []
    with pytest.raises(ConfigError, match="too large"):
        read.extend(step.number for step in loader_of(dataset).until(epochs=1))
    assert seen == sorted(seen)
    assert [largest > 800 for largest in seen] == [False] * (len(seen) - 1) + [True]
    assert dataset.packs_of(len(seen) - 2).stop // PACKS_A_STEP == len(read)
    other = grown(toy.ToyRecipe())
    other.wait_for(4)
    with pytest.raises(ConfigError, match="too large"):
        other.check_with(check)


def test_shards_without_a_sample_are_passed_over(toy: SimpleNamespace, grown: Grown) -> None:
    class Rows(toy.ToyRows):
        def samples_of(self, row: int) -> Any:
            return super().samples_of(row) if 80 <= row < 120 else "filtered"

    class Recipe(toy.ToyRecipe):
        def open(self) -> Any:
            return Rows(self)

    dataset = grown(Recipe())
    loader = loader_of(dataset)
    read = sum(step.num_packs for step in loader)
    assert read == len(dataset) == len(dataset.packs_of(2))
    assert loader.state_dict()["epoch"] == 1
    assert dataset.first_part[0]["tokens"].tolist() == dataset[0]["tokens"].tolist()


def test_shards_with_and_without_weights_share_a_step(toy: SimpleNamespace, grown: Grown) -> None:
    class Rows(toy.ToyRows):
        def samples_of(self, row: int) -> Any:
            made = super().samples_of(row)
            if isinstance(made, str) or row < 40:
                return made
            return [{**sample, "loss_weights": [0.5] * len(sample["tokens"])} for sample in made]

    class Recipe(toy.ToyRecipe):
        def open(self) -> Any:
            return Rows(self)

    loader = loader_of(grown(Recipe(num_rows=80)))
    for step in loader:
        weighed = sum(
            float(batch["loss_weights"][batch["labels"] >= 0].sum())
            if "loss_weights" in batch
            else int((batch["labels"] >= 0).sum())
            for batch in step.micro_batches
        )
        assert step.trained_weight == pytest.approx(weighed)


def test_a_copy_for_a_worker_reads_finished_shards(finished: GrowingPackedDataset) -> None:
    copy = pickle.loads(pickle.dumps(finished))
    assert len(pickle.dumps(finished)) < 10_000
    last = len(finished) - 1
    for one, other in zip(copy.__getitems__([last, 0, 5]), [finished[last], finished[0], finished[5]], strict=True):
        assert {key: value.tolist() for key, value in one.items()} == {k: v.tolist() for k, v in other.items()}
    assert finished[-1]["tokens"].tolist() == finished[last]["tokens"].tolist()
    with pytest.raises(IndexError, match=rf"Pack {last + 1} was asked for, and there are {last + 1} packs"):
        finished[last + 1]


def test_a_wait_ends_when_it_is_asked_to(toy: SimpleNamespace, grown: Grown, tmp_path: Path) -> None:
    dataset = grown(toy.ToyRecipe(gate=str(tmp_path / "gate")))
    loader = loader_of(dataset)
    wait = partial(loader.steps.wait, stop=lambda: dataset.is_there(1))
    read = [step.number for step in loader.until(epochs=1, wait=wait)]
    assert 0 < len(read) == dataset.packs_of(1).stop // PACKS_A_STEP


def test_the_builder_ends_with_the_data_set(toy: SimpleNamespace, tmp_path: Path) -> None:
    dataset = GrowingPackedDataset(toy.ToyRecipe(seconds_a_row=5.0), max_seq_len=32, cache_dir=tmp_path, num_proc=1)
    assert dataset._store is not None
    assert dataset._store._builder is not None
    process = dataset._store._builder._process
    assert process.is_alive()
    del dataset
    gc.collect()
    assert not process.is_alive()


# Refusals


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"strategy": "best_fit_decreasin"}, "best_fit_decreasing"),
        ({"strategy": "next_fit", "split_across_pack": True}, "split_across_pack=True is the strategy"),
        ({"max_documents": 0}, "max_documents"),
        ({"num_proc": 0}, "num_proc is 0"),
        ({"shard_rows": 0}, "shard_rows is 0"),
    ],
)
def test_options_that_can_not_work_are_refused_before_anything_is_built(
    toy: SimpleNamespace, grown: Grown, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        grown(toy.ToyRecipe(), **options)


def test_steps_that_need_all_packs_are_refused(finished: GrowingPackedDataset) -> None:
    with pytest.raises(ConfigError, match=r"balance='steps' needs all packs before the first step"):
        steps_of(finished, global_batch_size=2, balance="steps")
    with pytest.raises(ConfigError, match="global_batch_size is 0"):
        steps_of(finished, global_batch_size=0)
    with pytest.raises(ConfigError, match=r"number 0 \(toys\) has start='by_shard', and joined data sets are complete"):
        ConcatDataset([finished])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"packed": False, "start": "by_shard"}, "start='by_shard' has no effect without packed=True"),
        ({"packed": True, "start": "by_shards"}, "start is 'by_shards'. It is one of .* Did you mean 'by_shard'"),
        ({"packed": True, "shard_rows": 10}, "shard_rows=10 has no effect without start='by_shard'"),
    ],
)
def test_builders_refuse_a_start_that_has_no_effect(repository: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        chat_dataset(
            tiny_tokenizer(max_seq_len=512),
            source="json",
            data_files=str(repository / "torchpipe" / "assets" / "sample_chats.json"),
            conversation_column="messages",
            conversation_style="openai",
            **options,
        )
