"""Weights on a full disk, under a kill, and of two writers at once: what was saved before stays whole."""

from collections.abc import Callable
from pathlib import Path

import torch

from torchpipe.models import save_hf_weights
from torchpipe.models.tiny import tiny_llama3

_BUILD = """
import os, signal, sys, time, torch
from torchpipe.errors import CheckpointError
from torchpipe.models import load_hf_weights, save_hf_weights, save_peft_adapter
from torchpipe.models.tiny import tiny_llama3
from torchpipe.modules.peft import LoRAConfig, add_lora

def build(seed):
    torch.manual_seed(seed)
    return tiny_llama3(vocab_size=500, num_layers=1, embed_dim=64, intermediate_dim=96, num_heads=4, max_seq_len=32)

def seed_of(folder):
    model = build(0)
    load_hf_weights(model, folder)
    (seed,) = [seed for seed in range(4) if torch.equal(model.norm.scale, build(seed).norm.scale)
               and all(torch.equal(a, b) for a, b in zip(model.parameters(), build(seed).parameters()))]
    return seed
"""


def test_a_full_disk_is_one_sentence_and_the_earlier_weights_stay(on_small_disk: Callable[..., str]) -> None:
    code = """
save_hf_weights(build(1), folder / "out")
before = {file.name: file.read_bytes() for file in (folder / "out").iterdir()}
(folder / "filler").write_bytes(bytes(os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize - 60_000))
model = build(2)
add_lora(model, LoRAConfig(attn_modules=("q_proj",), rank=400))
for save, name in ((save_hf_weights, "out"), (save_hf_weights, "new"), (save_peft_adapter, "adapter")):
    try:
        save(model, folder / name)
    except CheckpointError as error:
        print(error)
assert {file.name: file.read_bytes() for file in (folder / "out").iterdir()} == before
assert sorted(path.name for path in folder.iterdir()) == ["filler", "out"]
print(seed_of(folder / "out"))
"""
    said = on_small_disk(_BUILD + code, size="800k").splitlines()
    for line, name in zip(said, ("out", "new", "adapter"), strict=False):
        assert f"{name} can't be written: " in line
        assert "No space left on device" in line
        assert "Free the disk or name another folder; what was there is as it was." in line
    assert said[3:] == ["1"]


def test_a_read_only_disk_is_one_sentence(on_small_disk: Callable[..., str]) -> None:
    save = _BUILD + 'save_hf_weights(build(1), folder / "out")\n'
    again = (
        _BUILD
        + """
for name in ("out", "new"):
    try:
        save_hf_weights(build(2), folder / name)
    except CheckpointError as error:
        print(error)
print(seed_of(folder / "out"))
"""
    )
    said = on_small_disk(save, then_read_only=again, size="2m").splitlines()
    assert ["can't be written" in line and "Read-only file system" in line for line in said] == [True, True, False]
    assert said[-1] == "1"


def test_a_kill_at_any_moment_of_saving_leaves_whole_weights(tmp_path: Path, run_code: Callable[..., str]) -> None:
    code = """
folder = __import__("pathlib").Path(sys.argv[1])
models = [build(seed) for seed in range(4)]
save_hf_weights(models[0], folder, max_shard_bytes=30_000)
found = []
for kill in range(12):
    receive, send = os.pipe()
    pid = os.fork()
    if not pid:
        while True:
            for model in models[1:]:
                save_hf_weights(model, folder, max_shard_bytes=30_000)
                os.write(send, b".")
    os.read(receive, 1)  # one is written
    start = time.perf_counter()
    os.read(receive, 1)  # and another
    time.sleep((time.perf_counter() - start) * kill / 12)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    found.append(seed_of(folder))
assert set(found) <= {1, 2, 3}, found
save_hf_weights(models[0], folder)
print([path.name for path in folder.parent.iterdir()], sorted(path.name for path in folder.iterdir()))
"""
    said = run_code(_BUILD + code, str(tmp_path / "out"))
    assert said.strip() == "['out'] ['config.json', 'model.safetensors']"


def test_of_two_processes_that_save_at_once_one_stays_whole(tmp_path: Path, run_code: Callable[..., str]) -> None:
    code = """
folder = __import__("pathlib").Path(sys.argv[1])
models = [build(seed) for seed in range(3)]
pids = []
for seed in (1, 2):
    pid = os.fork()
    if not pid:
        for _ in range(10):
            save_hf_weights(models[seed], folder, max_shard_bytes=30_000)
        os._exit(0)
    pids.append(pid)
assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0]
assert seed_of(folder) in (1, 2)
print([path.name for path in folder.parent.iterdir()])
"""
    assert run_code(_BUILD + code, str(tmp_path / "out")).strip() == "['out']"


def test_loading_takes_the_memory_of_one_tensor_beside_model_and_files(
    tmp_path: Path, run_code: Callable[..., str]
) -> None:
    # RLIMIT_DATA counts what is allocated and the mapped files. The files and one tensor fit under it, and a second
    # copy of the weights, as a state dict read at once would be, does not.
    code = """
import resource
from safetensors.torch import load_file
torch.manual_seed(0)
sizes = dict(vocab_size=8000, num_layers=24, embed_dim=256, intermediate_dim=1024, num_heads=4, max_seq_len=32)
model = tiny_llama3(**sizes)
size = sum(parameter.nbytes for parameter in model.parameters())
largest = max(parameter.nbytes for parameter in model.parameters())
save_hf_weights(model, sys.argv[1])
expected = [parameter.clone() for parameter in model.parameters()]
for parameter in model.parameters():
    torch.nn.init.zeros_(parameter)
load_hf_weights(build(0), sys.argv[2])  # what a first call allocates once
with open("/proc/self/status") as status:
    now = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData"))
limit = now + size + 3 * largest
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
load_hf_weights(model, sys.argv[1])
assert all(torch.equal(a, b) for a, b in zip(model.parameters(), expected))
try:
    read_at_once = {name: tensor.clone() for name, tensor in load_file(sys.argv[1] + "/model.safetensors").items()}
    print("the limit holds nothing back")
except (RuntimeError, MemoryError):
    print(size > 8 * largest)
"""
    torch.manual_seed(0)
    small = tiny_llama3(vocab_size=500, num_layers=1, embed_dim=64, intermediate_dim=96, num_heads=4, max_seq_len=32)
    save_hf_weights(small, tmp_path / "small")
    assert run_code(_BUILD + code, str(tmp_path / "large"), str(tmp_path / "small")).strip() == "True"
