"""Plans that are kept beside a store: made by one process, mapped by all."""

import mmap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from torchpipe.data.packing import PackPlan, plan_packs
from torchpipe.errors import DataError
from torchpipe.store.plans import drop_plan, kept_plan


class Maker:
    """Makes a plan of a few lengths, and counts how often."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> PackPlan:
        self.made += 1
        return plan_packs([5, 3, 2, 4, 1], 6)


@pytest.fixture
def make() -> Maker:
    return Maker()


def is_mapped(plan: PackPlan) -> bool:
    base: object = plan.sample
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap.mmap)


def test_a_plan_is_made_once_and_mapped_from_then_on(make: Maker, tmp_path: Path) -> None:
    first, second = (kept_plan(tmp_path / "plans" / "a", make) for _ in range(2))
    assert make.made == 1
    assert is_mapped(first)
    assert is_mapped(second)
    assert first.fingerprint == second.fingerprint == plan_packs([5, 3, 2, 4, 1], 6).fingerprint
    kept_plan(tmp_path / "plans" / "b", make)
    assert make.made == 2


def test_those_who_come_at_the_same_time_wait_for_the_one_that_makes_it(make: Maker, tmp_path: Path) -> None:
    all_there = threading.Barrier(4)

    def get() -> str:
        all_there.wait()
        return kept_plan(tmp_path / "plans" / "a", make).fingerprint

    with ThreadPoolExecutor(4) as pool:
        fingerprints = {future.result() for future in [pool.submit(get) for _ in range(4)]}
    assert (make.made, len(fingerprints)) == (1, 1)


def test_a_damaged_plan_is_made_again(make: Maker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "plans" / "a"
    kept_plan(folder, make)
    (folder / "sample.npy").write_bytes(b"damaged")
    assert kept_plan(folder, make).num_samples == 5
    assert make.made == 2
    assert f"The plan in {folder} is made again, for it can't be read" in capsys.readouterr().err


def test_a_plan_that_cant_be_kept_is_said_and_used(
    make: Maker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plans").write_text("no folder", encoding="utf-8")
    assert kept_plan(tmp_path / "plans" / "a", make).num_samples == 5
    assert f"The plan of {tmp_path} is not kept, and each process makes it again" in capsys.readouterr().err


def test_an_error_of_the_planner_is_raised_and_keeps_nobody_waiting(make: Maker, tmp_path: Path) -> None:
    def refuse() -> PackPlan:
        raise DataError("nothing to plan")

    with pytest.raises(DataError, match="nothing to plan"):
        kept_plan(tmp_path / "plans" / "a", refuse)
    assert kept_plan(tmp_path / "plans" / "a", make).num_samples == 5


def test_a_plan_that_was_dropped_is_still_there_for_who_has_mapped_it(make: Maker, tmp_path: Path) -> None:
    plan = kept_plan(tmp_path / "plans" / "a", make)
    drop_plan(tmp_path / "plans" / "a")
    assert not (tmp_path / "plans" / "a").exists()
    assert sorted(plan.sample.tolist()) == [0, 1, 2, 3, 4]
    drop_plan(tmp_path / "plans" / "a")
