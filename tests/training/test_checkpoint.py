"""A checkpoint is complete or not there, and is loaded only into the run that it belongs to."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from torchpipe.errors import CheckpointError
from torchpipe.training import checkpoints, load_checkpoint, save_checkpoint, set_seed


def trained_pair() -> tuple[nn.Module, torch.optim.Optimizer]:
    set_seed(3)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.rand(3, 4)).sum().backward()
    optimizer.step()
    return model, optimizer


def save(folder: Path, step: int, keep_last: int = 5) -> Path:
    model, optimizer = trained_pair()
    state = {"depends_on": {"seed": 3}, "step_in_epoch": 1}
    return save_checkpoint(folder, step=step, model=model, optimizer=optimizer, state=state, keep_last=keep_last)


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    folder = save(tmp_path, 7)
    after_saving = torch.rand(1)
    model, optimizer = trained_pair()
    fresh = nn.Linear(4, 2)
    fresh_optimizer = torch.optim.AdamW(fresh.parameters(), lr=0.1)
    state = load_checkpoint(folder, model=fresh, optimizer=fresh_optimizer, depends_on={"seed": 3})
    assert (state["step"], state["step_in_epoch"]) == (7, 1)
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), model.parameters(), strict=True))
    assert str(fresh_optimizer.state_dict()) == str(optimizer.state_dict())
    assert torch.equal(torch.rand(1), after_saving)


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 10):
        save(tmp_path, step, keep_last=2)
    assert [folder.name for folder in checkpoints(tmp_path)] == ["step_00000002", "step_00000010"]


def test_saving_a_step_twice_replaces_it(tmp_path: Path) -> None:
    assert save(tmp_path, 1) == save(tmp_path, 1)
    assert len(checkpoints(tmp_path)) == 1


def test_what_a_kill_left_half_written_is_not_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / ".step_00000009.0123456789ab.unfinished").mkdir(parents=True)
    assert checkpoints(tmp_path) == []
    save(tmp_path, 1)
    assert [entry.name for entry in tmp_path.iterdir()] == ["step_00000001"]


def test_no_folder_is_no_checkpoint(tmp_path: Path) -> None:
    assert checkpoints(tmp_path / "nothing") == []


def test_another_run_is_refused_by_naming_each_field(tmp_path: Path) -> None:
    folder = save(tmp_path, 1)
    model, optimizer = trained_pair()
    with pytest.raises(CheckpointError, match="rows was None and is 5; seed was 3 and is 4"):
        load_checkpoint(folder, model=model, optimizer=optimizer, depends_on={"seed": 4, "rows": 5})


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    model, optimizer = trained_pair()
    folder = save(tmp_path, 1)
    (folder / "optimizer.pt").write_bytes(b"cut")
    with pytest.raises(CheckpointError, match="optimizer.pt is missing or damaged .*Remove the folder"):
        load_checkpoint(folder, model=model, optimizer=optimizer, depends_on={"seed": 3})
    folder = save(tmp_path, 2)
    (folder / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(CheckpointError, match=r"model\.safetensors can't be read as safetensors"):
        load_checkpoint(folder, model=model, optimizer=optimizer, depends_on={"seed": 3})


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    folder = save(tmp_path, 1)
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**state, "version": 99}))
    model, optimizer = trained_pair()
    with pytest.raises(CheckpointError, match="has format 99; this version reads 2 and 3"):
        load_checkpoint(folder, model=model, optimizer=optimizer, depends_on={"seed": 3})
