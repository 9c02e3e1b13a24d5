"""A plan is read-only numbers that can be saved, mapped, told apart and checked."""

import json
import mmap
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from torchpipe.data.packing import CostModel, PackPlan, Span, plan_packs
from torchpipe.errors import ConfigError, DataError

LENGTHS = [4, 0, 4, 2, 2, 9]


@pytest.fixture
def plan() -> PackPlan:
    return plan_packs(LENGTHS, 6, overflow="drop")


def test_its_arrays_are_read_only(plan: PackPlan) -> None:
    for name in ("sample", "start", "stop", "pack_offsets", "pack_lens", "num_tokens"):
        values = getattr(plan, name)
        assert values.dtype == np.int64
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1


def test_it_counts_what_became_of_all(plan: PackPlan) -> None:
    assert plan.counts == {
        "samples": 6,
        "packed_samples": 4,
        "empty_samples": 1,
        "too_long_samples": 1,
        "truncated_tokens": 0,
        "spans": 4,
        "packs": 2,
        "tokens": 12,
    }
    assert plan.fill == 1.0


def test_it_survives_a_folder_and_is_mapped(plan: PackPlan, tmp_path: Path) -> None:
    for made in (plan, plan_packs([14, 3], 6, overflow="split"), plan_packs([5, 2], [3, 6])):
        folder = tmp_path / "plans" / made.fingerprint
        made.save(folder)
        made.save(folder)  # it is there already
        read = PackPlan.load(folder)
        assert "fingerprint" in vars(read)
        assert read.fingerprint == made.fingerprint
        for name in ("sample", "start", "stop", "pack_offsets", "pack_lens"):
            assert getattr(read, name).tolist() == getattr(made, name).tolist()
        assert is_mapped(read.sample)
        assert read.counts == made.counts
        assert {r: s.tolist() for r, s in read.left_out.items()} == {r: s.tolist() for r, s in made.left_out.items()}
        del vars(read)["fingerprint"]
        assert read.fingerprint == made.fingerprint
    assert sorted(path.name for path in (tmp_path / "plans").iterdir() if path.name.startswith(".")) == []


def is_mapped(values: np.ndarray) -> bool:
    base: object = values
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap.mmap)


def test_it_is_pickled_as_its_folder_or_its_numbers(plan: PackPlan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan")
    mapped = pickle.loads(pickle.dumps(PackPlan.load(tmp_path / "plan")))
    assert is_mapped(mapped.sample)
    in_memory = pickle.loads(pickle.dumps(plan))
    assert in_memory.start.strides == (0,)
    assert not in_memory.sample.flags.writeable
    assert mapped.fingerprint == in_memory.fingerprint == plan.fingerprint
    assert mapped.counts == in_memory.counts == plan.counts


def test_starts_that_are_all_zero_take_no_room(plan: PackPlan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan")
    assert not (tmp_path / "plan" / "start.npy").exists()
    assert plan.start.strides == (0,)


def test_a_folder_of_something_else_is_left_alone(plan: PackPlan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan")
    with pytest.raises(DataError, match="plan: it holds something else than this plan. Name a new folder"):
        plan_packs([3], 6).save(tmp_path / "plan")
    assert PackPlan.load(tmp_path / "plan").fingerprint == plan.fingerprint
    assert [path.name for path in tmp_path.iterdir()] == ["plan"]


def test_damaged_files_are_refused(plan: PackPlan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan")
    with pytest.raises(DataError, match=r"plan.json: this is no plan that can be read"):
        PackPlan.load(tmp_path / "nowhere")
    copy = Path(shutil.copytree(tmp_path / "plan", tmp_path / "cut"))
    (copy / "sample.npy").write_bytes((copy / "sample.npy").read_bytes()[:-8])
    with pytest.raises(DataError, match=r"sample.npy: this array of a plan can't be read"):
        PackPlan.load(copy)
    np.save(copy / "sample.npy", np.arange(3))
    with pytest.raises(DataError, match=r"sample.npy: it holds int64 \[3\], and the plan has int64 \[4\]"):
        PackPlan.load(copy)
    about = json.loads((copy / "plan.json").read_text())
    (copy / "plan.json").write_text(json.dumps({**about, "format": 99}))
    with pytest.raises(DataError, match="a plan of format 99, and this version reads 2"):
        PackPlan.load(copy)
    (copy / "plan.json").write_text(json.dumps({"format": 2}))
    with pytest.raises(DataError, match="'fingerprint', 'left_out', .* is missing"):
        PackPlan.load(copy)


def test_a_bit_that_flipped_is_found(plan: PackPlan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan")
    about = json.loads((tmp_path / "plan" / "plan.json").read_text())
    assert about["values"]["start"] == 0
    for name in ("sample.npy", "stop.npy", "pack_offsets.npy"):
        copy = Path(shutil.copytree(tmp_path / "plan", tmp_path / name))
        content = bytearray((copy / name).read_bytes())
        content[-8] ^= 1  # another sample, or a token less
        (copy / name).write_bytes(content)
        with pytest.raises(DataError, match="this plan was changed after it was written: its checksum differs"):
            PackPlan.load(copy)
    (tmp_path / "plan" / "plan.json").write_text(json.dumps({**about, "values": {**about["values"], "start": 1}}))
    with pytest.raises(DataError, match="its checksum differs"):
        PackPlan.load(tmp_path / "plan")


def test_the_fingerprint_tells_spans_packs_and_rows_apart() -> None:
    packs = [[Span(0, 0, 2), Span(1, 0, 2)], [Span(2, 0, 2)]]
    others = [
        [[Span(0, 0, 2)], [Span(1, 0, 2), Span(2, 0, 2)]],
        [[Span(1, 0, 2), Span(0, 0, 2)], [Span(2, 0, 2)]],
        [[Span(0, 0, 2), Span(1, 0, 2)], [Span(2, 0, 1)]],
        [[Span(0, 0, 2), Span(1, 0, 2)], [Span(2, 1, 2)]],
    ]
    prints = [PackPlan.from_packs(each, capacity=4).fingerprint for each in [packs, *others]]
    prints.append(PackPlan.from_packs(packs, capacity=5).fingerprint)
    assert len(set(prints)) == 6
    assert all(len(each) == 32 for each in prints)
    assert PackPlan.from_packs(packs, capacity=4).fingerprint == prints[0]


def test_packs_without_a_capacity_have_rows_of_their_tokens() -> None:
    plan = PackPlan.from_packs([[Span(0, 0, 2), Span(1, 0, 2)], [Span(2, 1, 2)]])
    assert plan.pack_lens.tolist() == [4, 1]
    assert len(PackPlan.from_packs([])) == 0
    assert PackPlan.from_packs([]).fill == 0.0


def test_some_packs_are_taken_in_any_order() -> None:
    plan = plan_packs(np.arange(1, 60), [40, 60])
    order = [7, 0, 3]
    taken = plan.take(order)
    assert [taken.spans(k) for k in range(3)] == [plan.spans(k) for k in order]
    assert taken.pack_lens.tolist() == plan.pack_lens[order].tolist()
    assert len(plan.take([])) == 0
    assert plan.take(range(len(plan))).fingerprint == plan.fingerprint


def test_costs_are_summed_over_documents_and_padding(plan: PackPlan) -> None:
    plan = PackPlan.from_packs([[Span(0, 0, 2), Span(1, 0, 3)], [Span(2, 1, 2)]], capacity=6)
    cost = CostModel(per_token=10, per_pair=1, per_media=1000)
    assert plan.costs(cost, padding=False).tolist() == [10 * 5 + 3 + 6, 10 + 1]
    assert plan.costs(cost).tolist() == [10 * 6 + 3 + 6 + 1, 10 * 6 + 1 + 15]
    media = np.array([0, 2, 1])
    assert plan.costs(cost, media=media).tolist() == [2000 + 70, 1000 + 76]
    assert plan.costs(lambda lengths: lengths, padding=False).tolist() == plan.num_tokens.tolist()
    full = PackPlan.from_packs([[Span(0, 0, 6)]], capacity=6)
    assert full.costs(lambda lengths: lengths + 7).tolist() == [13]  # no padding is no document
    with pytest.raises(ConfigError, match=r"cost gave float64 \[3\] for 3 documents. It has to give one whole number"):
        plan.costs(lambda lengths: lengths / 2)


def test_a_plan_of_other_lengths_is_refused(plan: PackPlan) -> None:
    plan.check(LENGTHS)
    with pytest.raises(DataError, match="The plan is of 6 samples, and there are 2"):
        plan.check([4, 4])
    with pytest.raises(DataError, match="sample 2 has 5 tokens, and packs hold 4 of them. Plan again"):
        plan.check([4, 0, 5, 2, 2, 9])
    overfull = PackPlan.from_packs([[Span(0, 0, 7)]], capacity=6)
    with pytest.raises(DataError, match="pack 0 holds 7 tokens in a row of 6"):
        overfull.check([7])
