"""A checkpoint is complete or not there, and is loaded only into the run that it belongs to."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from torchpipe.errors import CheckpointError
from torchpipe.models.tiny import tiny_llama3
from torchpipe.modules.peft import LoRAConfig, add_lora, get_adapter_params
from torchpipe.training import best_checkpoint, checkpoints, load_checkpoint, read_state, save_checkpoint, set_seed


def trained_pair() -> tuple[nn.Linear, torch.optim.Optimizer]:
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
    whole = {"optimizer": optimizer.state_dict(), "scheduler": None, "torch_rng": torch.get_rng_state()}
    no_groups = {"optimizer": {"state": {}, "param_groups": []}}
    for content in ([], {}, whole | {"optimizer": {}}, whole | no_groups, whole | {"torch_rng": torch.zeros(3)}):
        torch.save(content, folder / "optimizer.pt")
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


def decoder(seed: int, *, lora: bool = True) -> Any:
    """A tiny decoder whose base depends on the seed alone; with fresh adapters."""
    torch.manual_seed(seed)
    model = tiny_llama3(vocab_size=30, num_layers=2, embed_dim=16, intermediate_dim=24, num_heads=2, num_kv_heads=1)
    if lora:
        torch.manual_seed(99)
        add_lora(model, LoRAConfig(attn_modules=("q_proj",), mlp=True, rank=2, use_dora=True))
    return model


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW([parameter for parameter in model.parameters() if parameter.requires_grad], lr=0.1)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 2, scheduler: Any = None) -> None:
    for _ in range(steps):
        model(torch.randint(0, 30, (2, 6))).logsumexp(-1).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if scheduler is not None:
            scheduler.step()


def keep(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, *, step: int = 1, **more: Any) -> Path:
    state = {"depends_on": {"seed": 3}}
    return save_checkpoint(
        folder, step=step, model=model, optimizer=optimizer, state=state, keep_last=more.pop("keep_last", 5), **more
    )


@pytest.mark.parametrize("lora", [True, False])
def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path, lora: bool) -> None:
    def begin() -> tuple[Any, Any, Any]:
        model = decoder(0, lora=lora)
        optimizer = optimizer_of(model)
        return model, optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))

    model, optimizer, scheduler = begin()
    torch.manual_seed(5)
    train(model, optimizer, 3, scheduler)
    folder = keep(tmp_path, model, optimizer, scheduler=scheduler)
    train(model, optimizer, 3, scheduler)
    other, other_optimizer, other_scheduler = begin()
    load_checkpoint(folder, model=other, optimizer=other_optimizer, scheduler=other_scheduler, depends_on={"seed": 3})
    train(other, other_optimizer, 3, other_scheduler)
    assert other_scheduler.get_last_lr() == scheduler.get_last_lr() == [0.1 * (1 / 7)]
    for name, tensor in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor), name


def test_of_adapters_only_what_is_trained_is_kept(tmp_path: Path) -> None:
    model = decoder(0)
    folder = keep(tmp_path, model, optimizer_of(model))
    assert sorted(file.name for file in folder.iterdir()) == ["adapter.safetensors", "optimizer.pt", "state.json"]
    adapters = sum(parameter.nbytes for parameter in get_adapter_params(model).values())
    assert adapters < (folder / "adapter.safetensors").stat().st_size < adapters + 8_000


def test_adapters_are_resumed_over_their_own_base_alone(tmp_path: Path) -> None:
    model = decoder(0)
    folder = keep(tmp_path, model, optimizer_of(model))
    other = decoder(1)
    before = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    with pytest.raises(CheckpointError, match="adapters over base weights with the digest .* Load the base that the"):
        load_checkpoint(folder, model=other, optimizer=optimizer_of(other), depends_on={"seed": 3})
    assert all(torch.equal(tensor, before[name]) for name, tensor in other.state_dict().items())
    rounded = decoder(0).bfloat16()
    with pytest.raises(CheckpointError, match="in the same type"):
        load_checkpoint(folder, model=rounded, optimizer=optimizer_of(rounded), depends_on={"seed": 3})
    # A base that changes after a save is looked at again.
    with torch.no_grad():
        model.norm.scale[0] += 1
    with pytest.raises(CheckpointError, match="adapters over base weights"):
        load_checkpoint(folder, model=model, optimizer=optimizer_of(model), depends_on={"seed": 3})


@pytest.mark.parametrize("lora", [True, False])
def test_adapters_and_whole_models_are_not_mistaken_for_each_other(tmp_path: Path, lora: bool) -> None:
    model, other = decoder(0, lora=lora), decoder(0, lora=not lora)
    folder = keep(tmp_path, model, optimizer_of(model))
    held = "adapters alone, and the model has none" if lora else "a whole model, and the model has adapters"
    with pytest.raises(CheckpointError, match=held):
        load_checkpoint(folder, model=other, optimizer=optimizer_of(other), depends_on={"seed": 3})


def test_a_schedule_on_one_side_alone_is_another_run(tmp_path: Path) -> None:
    model, optimizer = trained_pair()
    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer)
    folder = keep(tmp_path, model, optimizer)
    with pytest.raises(CheckpointError, match="lr_scheduler was none and is one"):
        load_checkpoint(folder, model=model, optimizer=optimizer, scheduler=scheduler, depends_on={"seed": 3})
    folder = keep(tmp_path, model, optimizer, scheduler=scheduler)
    with pytest.raises(CheckpointError, match="lr_scheduler was one and is none"):
        load_checkpoint(folder, model=model, optimizer=optimizer, depends_on={"seed": 3})


def test_the_best_stays_when_later_steps_push_it_out(tmp_path: Path) -> None:
    assert best_checkpoint(tmp_path) is None
    saved = {}
    for step in range(1, 6):
        model, optimizer = trained_pair()
        with torch.no_grad():
            model.weight.fill_(step)
        keep(tmp_path, model, optimizer, step=step, keep_last=2, is_best=step in (1, 3))
        saved[step] = model.weight.clone()
    assert [folder.name for folder in checkpoints(tmp_path)] == ["step_00000004", "step_00000005"]
    best = best_checkpoint(tmp_path)
    assert best is not None
    assert best == tmp_path / "best"
    assert read_state(best)["step"] == 3
    model, optimizer = trained_pair()
    load_checkpoint(best, model=model, optimizer=optimizer, depends_on={"seed": 3})
    assert torch.equal(model.weight, saved[3])
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["best", "step_00000004", "step_00000005"]


def test_the_best_takes_no_room_beside_its_step(tmp_path: Path) -> None:
    model, optimizer = trained_pair()
    folder = keep(tmp_path, model, optimizer, is_best=True)
    for file in folder.iterdir():
        assert os.path.samefile(file, tmp_path / "best" / file.name)


def test_a_file_system_without_links_gets_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    model, optimizer = trained_pair()
    folder = keep(tmp_path, model, optimizer, is_best=True)
    for file in folder.iterdir():
        assert file.read_bytes() == (tmp_path / "best" / file.name).read_bytes()


def test_the_format_before_adapters_is_read(tmp_path: Path) -> None:
    folder = save(tmp_path, 1)
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**state, "version": 2}))
    content = torch.load(folder / "optimizer.pt", weights_only=True)
    torch.save({key: content[key] for key in ("optimizer", "torch_rng")}, folder / "optimizer.pt")
    model, optimizer = trained_pair()
    assert load_checkpoint(folder, model=model, optimizer=optimizer, depends_on={"seed": 3})["step"] == 1


def test_a_full_disk_leaves_the_earlier_checkpoints_and_the_best(on_small_disk: Callable[..., str]) -> None:
    said = on_small_disk(
        """
import os, torch
from torchpipe.errors import CheckpointError
from torchpipe.training import checkpoints, best_checkpoint, load_checkpoint, save_checkpoint
model = torch.nn.Linear(100, 100)
optimizer = torch.optim.AdamW(model.parameters())
run = dict(model=model, optimizer=optimizer)
save_checkpoint(folder, step=1, state={"depends_on": {}}, keep_last=1, is_best=True, **run)
disk = os.statvfs(folder)
(folder / "filler").write_bytes(bytes(disk.f_bavail * disk.f_frsize - 30_000))
model.weight.data.fill_(2)
for is_best in (True, False):
    try:
        save_checkpoint(folder, step=2, state={"depends_on": {}}, keep_last=1, is_best=is_best, **run)
    except CheckpointError as error:
        print(error)
print(sorted(path.name for path in folder.iterdir()))
for kept in (checkpoints(folder)[-1], best_checkpoint(folder)):
    print(load_checkpoint(kept, depends_on={}, **run)["step"], bool((model.weight != 2).all()))
""",
        size="400k",
    ).splitlines()
    for line in said[:2]:
        assert line.startswith("The checkpoint of step 2 can't be written to ")
        assert "No space left on device" in line
        assert "step_00000001" in line
    assert said[2:] == ["['best', 'filler', 'step_00000001']", "1 True", "1 True"]


def test_a_kill_at_any_moment_leaves_a_whole_checkpoint_and_a_whole_best(
    tmp_path: Path, run_code: Callable[..., str]
) -> None:
    said = run_code(
        """
import os, signal, sys, time, torch
from pathlib import Path
from torchpipe.training import checkpoints, best_checkpoint, load_checkpoint, save_checkpoint
folder = Path(sys.argv[1])
model = torch.nn.Linear(30, 30)
optimizer = torch.optim.AdamW(model.parameters())
run = dict(model=model, optimizer=optimizer)

def save(step):
    model.weight.data.fill_(step)
    model.bias.data.fill_(step)
    save_checkpoint(folder, step=step, state={"depends_on": {}}, keep_last=1, is_best=True, **run)

def check(kept):
    step = load_checkpoint(kept, depends_on={}, **run)["step"]
    assert bool((model.weight == step).all()) and bool((model.bias == step).all()), kept
    return step

save(0)
for kill in range(15):
    receive, send = os.pipe()
    pid = os.fork()
    if not pid:
        for step in range(1, 10**6):
            save(1 + step % 3)  # also over a step that is there
            os.write(send, b".")
    os.read(receive, 1)
    start = time.perf_counter()
    os.read(receive, 1)
    time.sleep((time.perf_counter() - start) * kill / 15)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert check(checkpoints(folder)[-1]) >= 0 and check(best_checkpoint(folder)) >= 0
save(9)
print(sorted(path.name for path in folder.iterdir()))
""",
        str(tmp_path / "checkpoints"),
    )
    assert said.strip() == "['best', 'step_00000009']"


def test_two_processes_that_save_one_step_leave_that_of_one(tmp_path: Path, run_code: Callable[..., str]) -> None:
    said = run_code(
        """
import os, sys, torch
from pathlib import Path
from torchpipe.training import checkpoints, load_checkpoint, save_checkpoint
folder = Path(sys.argv[1])
model = torch.nn.Linear(30, 30)
optimizer = torch.optim.AdamW(model.parameters())
run = dict(model=model, optimizer=optimizer)
pids = []
for value in (1, 2):
    pid = os.fork()
    if not pid:
        torch.nn.init.constant_(model.weight, value)
        torch.nn.init.constant_(model.bias, value)
        for step in range(8):
            save_checkpoint(folder, step=step // 2, state={"depends_on": {}}, keep_last=2, is_best=True, **run)
        os._exit(0)
    pids.append(pid)
assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0]
for kept in (*checkpoints(folder), folder / "best"):
    load_checkpoint(kept, depends_on={}, **run)
    assert len(set(model.weight.flatten().tolist() + model.bias.tolist())) == 1
print(sorted(path.name for path in folder.iterdir()))
""",
        str(tmp_path / "checkpoints"),
    )
    assert said.strip() == "['best', 'step_00000002', 'step_00000003']"
