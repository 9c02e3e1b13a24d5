"""MixDataset: data sets of every kind mixed, packed, moved to workers, and what can't be mixed."""

import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from torchpipe.audit import preview
from torchpipe.data import padded_collate_packed, padded_collate_sft
from torchpipe.datasets import (
    ConcatDataset,
    MixDataset,
    PackedDataset,
    SFTDataset,
    StoredDataset,
    chat_dataset,
    count_samples,
    describe_mix,
    instruct_dataset,
)
from torchpipe.errors import CheckpointError, ConfigError
from torchpipe.loading import GlobalSteps, StepLoader
from torchpipe.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer(max_seq_len=512)


class Numbers:
    """Samples of one token each, from ``start`` on."""

    def __init__(self, start: int, length: int) -> None:
        self.start, self.length = start, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Any]:
        assert 0 <= index < self.length
        return {"tokens": [self.start + index], "labels": [self.start + index]}


def numbers(dataset: Any) -> list[int]:
    return [sample["tokens"][0] for sample in dataset]


@pytest.fixture(scope="module")
def gsm8k(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Function (first, last, **options) -> a data set of some of gsm8k's rows."""
    cache = tmp_path_factory.mktemp("mix")

    def rows(first: int, last: int, **options: Any) -> Any:
        given: dict[str, Any] = {
            "source": "json",
            "data_files": str(shared_data / "gsm8k" / "train.jsonl"),
            "split": f"train[{first}:{last}]",
            "column_map": {"input": "question", "output": "answer"},
            "cache_dir": str(cache),
        }
        return instruct_dataset(TOKENIZER, **given, **options)

    return rows


def test_rows_come_in_shares_by_weight_and_locate_says_of_what():
    mix = MixDataset({"a": Numbers(0, 40), "b": Numbers(100, 40)}, weights={"a": 3, "b": 1})
    found = numbers(mix)
    assert len(found) == len(mix) == 53
    assert Counter(number >= 100 for number in found) == {False: 40, True: 13}
    assert sorted(number for number in found if number < 100) == list(range(40))
    for index in (0, 7, -1):
        dataset, row = mix.locate(index)
        assert dataset[row] == mix[index]
        assert mix.row_of(index) == ("a" if found[index] < 100 else "b", found[index] % 100)
    with pytest.raises(IndexError, match=r"Row 53 was asked for, and the 2 data sets .* 53 rows \(40 of a, 13 of b\)"):
        mix[53]


def test_without_weights_data_sets_are_mixed_by_their_size_and_by_temperature_more_evenly():
    parts = {"large": Numbers(0, 900), "small": Numbers(1000, 100)}
    by_size = MixDataset(parts)
    assert [share.items for share in by_size.realised()] == [900, 100]
    even = MixDataset(parts, temperature=2, stop="never", num_items=400)
    assert [share.items for share in even.realised()] == [300, 100]
    with pytest.raises(ConfigError, match="weights and temperature both say how much of each data set there is"):
        MixDataset(parts, weights=[1, 1], temperature=2)


def test_eight_sources_of_which_one_is_taken_out_keep_their_order():
    parts = {f"part {place}": Numbers(1000 * place, 50) for place in range(8)}
    weights = {name: place + 1 for place, name in enumerate(parts)}
    whole = numbers(MixDataset(parts, weights=weights, stop="all"))
    del parts["part 3"], weights["part 3"]
    rest = numbers(MixDataset(parts, weights=weights, stop="all"))
    assert [number for number in whole if number // 1000 != 3] == rest


def test_a_data_set_without_rows_is_warned_of_and_left_out():
    parts = {"none": Numbers(0, 0), "two": Numbers(0, 2), "one": Numbers(9, 1)}
    with pytest.warns(UserWarning, match="Left out of the mix, for they have no rows: 'none'"):
        mix = MixDataset(parts, stop="all", weights=[9, 1, 1])
    assert mix.names == ["two", "one"]
    assert sorted(numbers(mix)) == [0, 1, 9, 9]
    with (
        pytest.warns(UserWarning, match="Left out of the mix"),
        pytest.raises(ConfigError, match="There is nothing to mix: 'none' have no rows"),
    ):
        MixDataset({"none": Numbers(0, 0)})


def test_rows_that_are_asked_for_together_are_those_that_are_asked_for_one_by_one(gsm8k: Any):
    packed = {name: gsm8k(*part, packed=True) for name, part in (("a", (0, 20)), ("b", (20, 50)))}
    mixes = [
        MixDataset(packed, weights=[1, 2]),
        MixDataset({"a": gsm8k(0, 9, cache=True), "b": gsm8k(9, 30, cache=True)}),
        MixDataset({"a": gsm8k(0, 5), "b": Numbers(0, 4)}),
    ]
    for mix in mixes:
        rows = [3, 0, 3, len(mix) - 1]
        for together, row in zip(mix.__getitems__(rows), rows, strict=True):
            alone = mix[row]
            assert together.keys() == alone.keys()
            assert all(torch.equal(torch.as_tensor(together[key]), torch.as_tensor(alone[key])) for key in alone)


def test_tokens_are_mixed_where_they_are_known(gsm8k: Any):
    stored = {"a": gsm8k(0, 60, cache=True), "b": gsm8k(60, 200, cache=True)}
    columns: tuple[tuple[Any, str], ...] = (("tokens", "lengths"), ("trained_tokens", "trained_counts"))
    for by, column in columns:
        mix = MixDataset(stored, weights={"a": 1, "b": 1}, by=by)
        a, b = mix.realised()
        assert (a.target, a.realised) == (0.5, pytest.approx(0.5, abs=0.01))
        sums = Counter()
        for index in range(len(mix)):
            sums[mix.row_of(index).source] += int(getattr(mix, column)[index])
        assert sums["a"] / (sums["a"] + sums["b"]) == pytest.approx(a.realised)
        assert a.passes == 1 > b.passes
    packs = {name: gsm8k(*part, packed=True) for name, part in (("a", (0, 60)), ("b", (60, 200)))}
    mix = MixDataset(packs, weights=[2, 1], by="tokens")
    assert mix.packed
    assert mix.realised()[0].realised == pytest.approx(2 / 3, abs=0.02)
    assert "packs of 2 data sets by tokens" in mix.describe()
    with pytest.raises(ConfigError, match="by='tokens' needs the tokens of each row of a .* a SFTDataset has none"):
        MixDataset({"a": gsm8k(0, 5), "b": gsm8k(5, 9, cache=True)}, by="tokens")


def test_what_is_known_of_each_row_is_that_of_the_rows(gsm8k: Any):
    mix = MixDataset({"a": gsm8k(0, 9, cache=True), "b": gsm8k(9, 30, cache=True)}, weights=[1, 1], stop="all")
    items = [mix[index] for index in range(len(mix))]
    assert mix.lengths.tolist() == [len(item["tokens"]) for item in items]
    assert mix.trained_counts.tolist() == [int((item["labels"] != -100).sum()) for item in items]
    assert mix.weight_sums is None
    read = count_samples(list(items))
    for name in ("rows", "tokens", "trained_tokens", "untrained_rows", "longest"):
        assert getattr(mix.counts, name) == getattr(read, name), name
    packs = MixDataset({"a": gsm8k(0, 9, packed=True), "b": gsm8k(9, 30, packed=True)})
    assert packs.costs.shape == packs.trained_counts.shape == (len(packs),)
    assert packs.counts.rows == sum(len(mix_part.plan.sample) for mix_part in packs.datasets)


def test_a_mix_is_packed_from_the_stores_of_its_parts(gsm8k: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    parts = {"a": gsm8k(0, 30, cache=True), "b": gsm8k(30, 60, cache=True)}
    monkeypatch.setenv("TORCHPIPE_CACHE", str(tmp_path))
    mix = MixDataset(parts, weights=[1, 2], by="tokens", stop="all")
    packed = PackedDataset(mix, max_seq_len=1024, strategy="best_fit_decreasing")
    assert list(tmp_path.iterdir()) == []  # nothing was tokenised or stored again
    assert packed.counts.rows == len(mix) > 60
    assert int(packed.trained_counts.sum()) == int(mix.trained_counts.sum())
    seen = Counter()
    for index in range(len(packed)):
        item, begin = packed[index], 0
        for span, length in zip(packed.spans(index), item["seq_lens"].tolist(), strict=False):
            sample = mix[span.sample]
            for key in ("tokens", "labels"):
                assert torch.equal(item[key][begin : begin + length], sample[key])
            seen[span.sample] += 1
            assert packed.row_of(span.sample) == (span.sample, 0)
            begin += length
    assert seen == dict.fromkeys(range(len(mix)), 1)
    assert describe_mix(packed) == mix.describe()
    again = pickle.loads(pickle.dumps(packed))
    assert torch.equal(again[2]["tokens"], packed[2]["tokens"])
    other = PackedDataset(MixDataset(parts, weights=[1, 1]), max_seq_len=1024)
    assert other.fingerprint != packed.fingerprint
    cut = PackedDataset(mix, max_seq_len=1024, max_packs=3)
    assert (len(cut), cut.counts.rows + cut.counts.dropped_rows) == (3, len(mix))


def test_spans_of_a_packed_mix_may_be_cut(gsm8k: Any):
    mix = MixDataset({"a": gsm8k(0, 30, cache=True), "b": gsm8k(30, 60, cache=True)}, stop="all")
    packed = PackedDataset(mix, max_seq_len=128, split_across_pack=True)
    tokens = torch.cat([item["tokens"] for item in packed])
    expected = torch.cat([mix[index]["tokens"] for index in range(len(mix))])
    assert torch.equal(tokens[: len(expected)], expected)
    labels = sum(int((item["labels"] != -100).sum()) for item in packed)
    assert labels == int(packed.trained_counts.sum())


def test_joined_and_stored_data_sets_are_packed_from_their_stores_too(gsm8k: Any, tmp_path: Path):
    one, two = gsm8k(0, 20, cache=True), gsm8k(20, 40, cache=True)
    joined = PackedDataset(ConcatDataset([one, two]), max_seq_len=1024)
    through_rows = PackedDataset([ConcatDataset([one, two])[row] for row in range(40)], max_seq_len=1024)
    assert len(joined) == len(through_rows)
    assert all(torch.equal(joined[pack]["tokens"], through_rows[pack]["tokens"]) for pack in range(len(joined)))
    alone = PackedDataset(one, max_seq_len=1024)
    assert alone.content is one.store
    assert alone.counts == one.counts
    assert isinstance(alone.samples, SFTDataset)


def test_loss_weights_of_some_sources_make_those_of_the_others_one(gsm8k: Any, tmp_path: Path):
    turns = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4", "weight": 0.5}]
    file = tmp_path / "weighted.jsonl"
    file.write_text((json.dumps({"messages": turns}) + "\n") * 4, encoding="utf-8")
    weighted: Any = chat_dataset(
        TOKENIZER, source="json", data_files=str(file), conversation_column="messages", conversation_style="openai",
        cache=True, cache_dir=str(tmp_path),
    )  # fmt: skip
    mix = MixDataset({"weighted": weighted, "plain": gsm8k(0, 4, cache=True)}, stop="all")
    assert mix.weight_sums is not None
    packed = PackedDataset(mix, max_seq_len=2048)
    assert packed.weight_sums is not None
    assert packed.weight_sums.sum() == pytest.approx(mix.weight_sums.sum())
    assert mix.weight_sums.sum() == pytest.approx(
        weighted.weight_sums.sum() + float(mix.datasets[1].trained_counts.sum())
    )


def test_workers_read_the_same_rows_as_the_process(gsm8k: Any):
    mix = MixDataset({"a": gsm8k(0, 12, cache=True), "b": gsm8k(12, 30, cache=True)}, weights=[2, 1])
    alone = [batch["tokens"] for batch in DataLoader(mix, batch_size=4, collate_fn=padded_collate_sft)]
    shared = DataLoader(
        mix, batch_size=4, collate_fn=padded_collate_sft, num_workers=2, multiprocessing_context="spawn"
    )
    assert all(torch.equal(a, b["tokens"]) for a, b in zip(alone, shared, strict=True))
    assert len(pickle.dumps(mix)) < 8000


def test_a_run_goes_on_by_its_position_and_not_with_another_mix():
    parts = {"a": Numbers(0, 12), "b": Numbers(100, 12)}

    def loader(weights: list[float]) -> StepLoader:
        mix = MixDataset(parts, weights=weights, stop="never", num_items=20)
        return StepLoader(
            mix, GlobalSteps.of(mix, global_batch_size=4), batch_size=2, collate_fn=lambda items: numbers(items)
        )

    whole = [step.micro_batches for step in loader([2, 1])]
    first = loader([2, 1])
    begun = iter(first)
    head = [next(begun).micro_batches for _ in range(2)]
    state = json.loads(json.dumps(first.state_dict()))
    rest = loader([2, 1])
    rest.load_state_dict(state)
    assert head + [step.micro_batches for step in rest] == whole
    with pytest.raises(CheckpointError):
        loader([1, 2]).load_state_dict(state)


def test_another_epoch_has_the_same_data_sets_in_other_orders(gsm8k: Any):
    mix = MixDataset({"a": Numbers(0, 10), "b": Numbers(100, 30)}, weights=[1, 1])
    found = [numbers(mix.for_epoch(epoch)) for epoch in range(3)]
    assert numbers(mix) == found[0]
    assert all(len(set(some)) == 20 for some in found)
    assert {number for some in found for number in some} == {*range(10), *range(100, 130)}
    stored = MixDataset({"a": gsm8k(0, 9, cache=True), "b": gsm8k(9, 30, cache=True)}, stop="all", by="tokens")
    assert stored.for_epoch(1).counts.digest != stored.counts.digest
    assert stored.for_epoch(1).counts.rows == stored.counts.rows


def test_mixes_may_be_mixed(gsm8k: Any):
    inner = MixDataset({"x": Numbers(0, 4), "y": Numbers(10, 4)}, shuffle=False)
    outer = MixDataset({"inner": inner, "z": Numbers(20, 8)}, stop="all", shuffle=False)
    assert sorted(numbers(outer)) == [*range(4), *range(10, 14), *range(20, 28)]
    assert {outer.row_of(index).source for index in range(len(outer))} == {"inner/x", "inner/y", "z"}
    tokens = MixDataset({"mix": MixDataset({"a": gsm8k(0, 9, cache=True)}), "b": gsm8k(9, 30, cache=True)}, by="tokens")
    assert tokens.lengths.shape == (len(tokens),)


def test_a_list_is_named_after_its_data_sets():
    assert MixDataset([Numbers(0, 2), Numbers(5, 2)]).names == ["Numbers", "Numbers (2)"]
    assert MixDataset([Numbers(0, 2), Numbers(5, 2)], names=["x", None]).names == ["x", "Numbers"]


def test_packed_batches_of_a_mix_of_packs(gsm8k: Any):
    mix = MixDataset({"a": gsm8k(0, 30, packed=True), "b": gsm8k(30, 90, packed=True)}, weights=[1, 1])
    batch = padded_collate_packed(mix.__getitems__([0, 1, 2]))
    assert batch["tokens"].shape == (3, 512)
    assert preview(mix[0], lambda ids: TOKENIZER.decode(ids, truncate_at_eos=False, skip_special_tokens=False))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"weights": {"a": 1}}, "There is no weight for 'b'. Give every data set one, or none"),
        ({"weights": {"a": 1, "bb": 1}}, "weights has 'bb', and no data set .* They are 'a', 'b'. Did you mean 'b'"),
        ({"weights": [1]}, "weights has 1 numbers for 2 data sets"),
        ({"weights": {"a": 0, "b": 1}}, "The weight of a is 0. Give a number above 0"),
        ({"weights": {"a": float("nan"), "b": 1}}, "The weight of a is nan. Give a number above 0"),
        ({"weights": {"a": -1, "b": 1}}, "The weight of a is -1. Give a number above 0"),
        ({"weights": "ab"}, "weights is 'ab'. Give a mapping of names to numbers, or a list"),
        ({"epochs": -1}, "The epochs of a is -1. Give a number above 0"),
        ({"epochs": {"c": 1}}, "epochs has 'c', and no data set of the mix is called so"),
        ({"by": "token"}, "by is 'token'. It is one of 'rows', 'tokens', 'trained_tokens'. Did you mean 'tokens'"),
        ({"stop": "al"}, "stop is 'al'. It is one of 'first', 'all', 'never'. Did you mean 'all'"),
        ({"names": ["a", "b"]}, "names are given twice"),
    ],
)
def test_what_can_not_be_mixed_is_said(options: dict[str, Any], sentence: str):
    with pytest.raises(ConfigError, match=sentence):
        MixDataset({"a": Numbers(0, 2), "b": Numbers(5, 2)}, **options)


def test_packed_and_unpacked_rows_and_objects_without_rows_are_not_mixed():
    with pytest.raises(ConfigError, match="Either all data sets of a MixDataset are packed, or none"):
        MixDataset({"a": PackedDataset(Numbers(0, 4), max_seq_len=2), "b": Numbers(0, 4)})
    with pytest.raises(ConfigError, match="MixDataset joins objects with __len__ and __getitem__; number 0 is a int"):
        MixDataset({"a": 3})  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="MixDataset was given an empty list"):
        MixDataset({})


def test_the_fingerprint_is_that_of_the_rows_and_their_order(gsm8k: Any):
    parts = {"a": gsm8k(0, 9, cache=True), "b": gsm8k(9, 30, cache=True)}
    mix = MixDataset(parts)
    assert mix.fingerprint() == MixDataset(parts).fingerprint()
    assert mix.fingerprint() != MixDataset(parts, seed=1).fingerprint()
    assert isinstance(parts["a"], StoredDataset)
    assert np.array_equal(mix.schedule.item, MixDataset(parts).schedule.item)
