"""A whole config of torchtune's trains with the package's name replaced: on random weights as they are published."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from run_folders import newest
from safetensors.torch import load_file

from torchpipe.audit.plan_report import plan_config
from torchpipe.cli.main import main
from torchpipe.cli.migrate import migrate
from torchpipe.config.parse import RecipeArgumentParser
from torchpipe.errors import CheckpointError, ConfigError, NonFiniteLossError

Job = Callable[..., list[str]]


def run(sft: ModuleType, words: list[str]) -> None:
    sft.main(RecipeArgumentParser().parse_config(words))


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def same(one: Path, two: Path) -> bool:
    first, second = load_file(one), load_file(two)
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


# The whole config


def test_the_lora_config_of_1b_trains_as_it_is(
    torchtune_job: Job, torchtune_llama: SimpleNamespace, torchpipe_command: Callable[..., Any], tmp_path: Path
) -> None:
    words = torchtune_job(torchtune_llama.LORA, rows=70)
    done = torchpipe_command("run", "lora_finetune_single_device", *words)
    assert done.returncode == 0, done.stderr
    assert "training rows: 70 rows" in done.stdout
    assert "of them trained (" in done.stdout
    assert "torch.bfloat16" in done.stdout
    assert "steps: 3; 32 packs a step" in done.stdout
    assert "seed: " in done.stdout
    out = tmp_path / "out"
    lines = lines_of(out)
    assert [line["lr"] for line in lines] == pytest.approx([0.0, 3e-6, 6e-6])  # of 100 steps of warmup
    assert all("peak_memory_rss" in line for line in lines)
    (logged,) = (out / "logs").iterdir()
    assert logged.read_text().count("loss:") == 3
    assert sorted(file.name for file in newest(out).iterdir()) == ["adapter.safetensors", "optimizer.pt", "state.json"]
    trained = load_file(newest(out) / "adapter.safetensors")
    assert {tensor.dtype for tensor in trained.values()} == {torch.bfloat16}
    assert any("lora_b" in name and tensor.count_nonzero() for name, tensor in trained.items())
    base, exported = load_file(tmp_path / "Llama-3.2-1B-Instruct" / "model.safetensors"), out / "epoch_0"
    merged = load_file(exported / "model.safetensors")
    assert {name: (t.shape, t.dtype) for name, t in merged.items()} == {n: (t.shape, t.dtype) for n, t in base.items()}
    assert json.loads((exported / "adapter" / "adapter_config.json").read_text())["r"] == 64


@pytest.mark.soak
def test_the_lora_config_of_1b_trains_two_steps_at_its_size(
    torchtune_job: Job, torchtune_llama: SimpleNamespace, torchpipe_command: Callable[..., Any], tmp_path: Path
) -> None:
    words = torchtune_job(torchtune_llama.LORA, rows=36, sizes=torchtune_llama.ONE_BILLION)
    done = torchpipe_command("run", "lora_finetune_single_device", *words, timeout=3600)
    assert done.returncode == 0, done.stderr
    assert [line["step"] for line in lines_of(tmp_path / "out")] == [1, 2]
    assert (tmp_path / "out" / "epoch_0" / "config.json").is_file()


def test_the_full_config_of_1b_trains_with_another_optimizer_named(
    sft: ModuleType,
    torchtune_job: Job,
    torchtune_llama: SimpleNamespace,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    words = torchtune_job(torchtune_llama.FULL, "optimizer=torch.optim.AdamW", "seed=5", rows=9)
    run(sft, words)
    printed = capsys.readouterr().out
    assert "note: optimizer_in_bwd is left out. The optimizer steps after the backward pass" in printed
    assert "all trained, torch.bfloat16" in printed
    assert [line["step"] for line in lines_of(tmp_path / "out")] == [1, 2, 3]
    base, exported = tmp_path / "Llama-3.2-1B-Instruct", tmp_path / "out" / "epoch_0"
    assert not same(base / "model.safetensors", exported / "model.safetensors")
    assert not (exported / "adapter").exists()


# What torchtune 0.6.1's own full recipe logged for the job below, on the same files.
LOSSES_OF_TORCHTUNE = [11.853924, 11.757707, 11.656536, 11.569304]


def test_losses_are_those_of_torchtunes_recipe(
    sft: ModuleType,
    torchtune_job: Job,
    torchtune_llama: SimpleNamespace,
    llama3_tokenizer_file: Path,
    tmp_path: Path,
) -> None:
    """Four steps of 2 x 4 rows each; torchtune leaves the 33rd row out."""
    sizes = {**torchtune_llama.TINY, "vocab_size": 128_256}
    words = torchtune_job(torchtune_llama.FULL, rows=33, sizes=sizes)
    more = ["optimizer=torch.optim.AdamW", "optimizer.lr=1e-3", "dtype=fp32", "shuffle=False", "optimizer_in_bwd=False"]
    more += ["gradient_accumulation_steps=2", "batch_size=4", "epochs=1", "max_steps_per_epoch=4", "seed=1"]
    more += ["num_rows_for_training_loss=0", "max_generated_tokens=0", f"tokenizer.path={llama3_tokenizer_file}"]
    tiny = [f"model.{name}={value}" for name, value in sizes.items()]
    run(sft, [*words, *more, "model=torchpipe.models.llama3_2.llama3_2", *tiny, "model.scale_factor=32"])
    assert [line["loss"] for line in lines_of(tmp_path / "out")] == pytest.approx(LOSSES_OF_TORCHTUNE, rel=1e-5)


def test_ids_that_the_tokenizer_does_not_know_are_left_out_of_the_reply(
    sft: ModuleType,
    torchtune_job: Job,
    torchtune_llama: SimpleNamespace,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Published embeddings have rows to spare."""
    sizes = {**torchtune_llama.TINY, "vocab_size": 50_000}
    tiny = [f"model.{name}={value}" for name, value in sizes.items()]
    words = torchtune_job(torchtune_llama.LORA, "seed=1", "max_generated_tokens=16", rows=4, sizes=sizes)
    run(sft, [*words, "model=torchpipe.models.llama3_2.lora_llama3_2", *tiny, "model.scale_factor=32"])
    assert "generation from the prompt of the first sample:" in capsys.readouterr().out


def test_an_optimizer_that_is_not_installed_is_answered_with_another(
    sft: ModuleType, torchtune_job: Job, torchtune_llama: SimpleNamespace
) -> None:
    words = [word for word in torchtune_job(torchtune_llama.FULL) if not word.startswith("optimizer.fused")]
    with pytest.raises(ConfigError, match=r"bitsandbytes is not installed.*optimizer=torch\.optim\.AdamW"):
        run(sft, words)


@pytest.mark.parametrize("page", ["README.md", "docs/from_torchtune.md"])
def test_the_commands_of_the_pages_are_understood(
    torchtune_llama: SimpleNamespace,
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    page: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (repository / page).read_text(encoding="utf-8")
    (line,) = re.findall(r"^torchpipe migrate (.*)$", text, flags=re.MULTILINE)
    old, _, new = line.split()
    (tmp_path / old).write_text(torchtune_llama.LORA)
    assert main(["migrate", *line.split()]) == 0
    assert f"torchpipe run lora_finetune_single_device --config {new}" in text
    assert (tmp_path / new).read_text() == torchtune_llama.LORA.replace("torchtune.", "torchpipe.")


def test_a_plan_of_the_config_has_the_steps_of_a_run(torchtune_job: Job, torchtune_llama: SimpleNamespace) -> None:
    more = ["tokenizer.max_seq_len=256", "max_steps_per_epoch=2", "epochs=3"]
    cfg = RecipeArgumentParser().parse_config(torchtune_job(torchtune_llama.LORA, *more, rows=70))
    (planned,) = plan_config(cfg).sections
    assert (len(planned.steps), planned.num_steps) == (3, 6)


@pytest.mark.parametrize("name", ["LORA", "FULL"])
def test_the_configs_of_1b_fit(torchtune_llama: SimpleNamespace, tmp_path: Path, name: str) -> None:
    (tmp_path / "old.yaml").write_text(vars(torchtune_llama)[name])
    problems = migrate(tmp_path / "old.yaml").problems
    if name == "LORA":
        assert problems == ()
    else:
        (problem,) = problems
        assert "bitsandbytes is not installed" in problem


@pytest.mark.parametrize("name", ["llama3_2/1B_lora/sft", "llama3_2/1B_full/sft", "llama3_1/8B_lora/sft"])
def test_a_shipped_config_of_a_published_model_trains(
    sft: ModuleType, torchtune_job: Job, torchtune_llama: SimpleNamespace, repository: Path, tmp_path: Path, name: str
) -> None:
    """Its own words, but for the model's sizes and where things are."""
    torchtune_job(torchtune_llama.LORA)  # writes the folder
    lora = "lora_" if "lora" in name else ""
    words = [
        "--config",
        name,
        f"data_file={repository / 'torchpipe' / 'assets' / 'sample_chats.json'}",
        f"model_dir={tmp_path / 'Llama-3.2-1B-Instruct'}",
        f"output_dir={tmp_path / 'out'}",
        "device=cpu",
        "max_steps=2",
        "run_val_every_n_steps=1",
        "gradient_accumulation_steps=1",
        "tokenizer.max_seq_len=512",
        f"model=torchpipe.models.llama3_2.{lora}llama3_2",
        "model.scale_factor=32",
        *torchtune_llama.TINY_MODEL,
    ]
    run(sft, words)
    out = tmp_path / "out"
    assert (out / "step_2" / "model.safetensors").is_file()
    assert (out / "step_2" / "adapter").exists() == bool(lora)
    assert (out / "checkpoints" / "best").is_dir()
    assert sum("held_out_loss" in line for line in lines_of(out)) == 2


# What its keys do


def test_a_drawn_seed_is_kept_and_the_run_goes_on_from_any_step_to_the_bit(
    sft: ModuleType,
    torchtune_job: Job,
    torchtune_llama: SimpleNamespace,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    more = ["model.lora_dropout=0.1", "epochs=3", "lr_scheduler.num_warmup_steps=2", "clip_grad_norm=0.5"]
    more += ["save_every_n_steps=1", "keep_last_n_checkpoints=9"]
    words = torchtune_job(torchtune_llama.LORA, *more, rows=40)
    run(sft, words)
    shutil.copytree(tmp_path / "out", tmp_path / "again")
    for step in (3, 4, 5, 6):
        shutil.rmtree(tmp_path / "again" / "checkpoints" / f"step_{step:08d}")
    drawn = re.findall(r"seed: (\d+) \(drawn", capsys.readouterr().out)
    run(sft, [*words, f"output_dir={tmp_path / 'again'}", "resume_from_checkpoint=true"])
    assert "resumed at step 2 of 6" in capsys.readouterr().out
    once, again = tmp_path / "out", tmp_path / "again"
    assert newest(once).name == newest(again).name == "step_00000006"
    assert same(newest(once) / "adapter.safetensors", newest(again) / "adapter.safetensors")
    assert same(once / "epoch_2" / "model.safetensors", again / "epoch_2" / "model.safetensors")
    kept = json.loads((newest(again) / "state.json").read_text())["depends_on"]["seed"]
    assert [str(kept)] == drawn
    known = ("step", "loss", "lr", "grad_norm")
    lines = [[[line[name] for name in known] for line in lines_of(folder)] for folder in (once, again)]
    assert lines[0] == lines[1]
    assert [line[2] for line in lines[0]] == pytest.approx([0, 1.5e-4, 3e-4, 2.560660e-4, 1.5e-4, 4.393398e-5])


def test_two_ranks_draw_one_seed_and_train_as_one(
    torchtune_job: Job, torchtune_llama: SimpleNamespace, torchpipe_command: Callable[..., Any], tmp_path: Path
) -> None:
    more = ["dtype=fp32", "gradient_accumulation_steps=2", "clip_grad_norm=0.5", "lr_scheduler.num_warmup_steps=1"]
    words = torchtune_job(torchtune_llama.LORA, *more, rows=32)
    two = torchpipe_command("run", "--nproc_per_node", "2", "lora_finetune_distributed", *words)
    assert two.returncode == 0, two.stderr
    assert two.stdout.count("(drawn; ") == 1
    state = json.loads((newest(tmp_path / "out") / "state.json").read_text())
    seed, packs = state["depends_on"]["seed"], state["loader"]["global_batch_size"]
    assert packs == 16
    again = ["gradient_accumulation_steps=4", f"seed={seed}", f"output_dir={tmp_path / 'one'}"]
    one = torchpipe_command("run", "lora_finetune_single_device", *words, *again)
    assert one.returncode == 0, one.stderr
    names = [tmp_path / name / "epoch_0" / "adapter" / "adapter_model.safetensors" for name in ("out", "one")]
    first, second = map(load_file, names)
    for name, tensor in first.items():
        torch.testing.assert_close(second[name], tensor, rtol=1e-4, atol=1e-6)


def test_two_drawn_seeds_differ(sft: ModuleType, torchtune_job: Job, torchtune_llama: SimpleNamespace) -> None:
    assert len({sft.training.seed_of_run(None, {}, sft.training.Ranks()) for _ in range(3)}) == 3


def test_a_schedule_of_another_length_is_another_run(
    sft: ModuleType, torchtune_job: Job, torchtune_llama: SimpleNamespace
) -> None:
    words = torchtune_job(torchtune_llama.LORA, "seed=1", rows=8)
    run(sft, words)
    with pytest.raises(CheckpointError, match="steps of lr_scheduler was 1 and is 2"):
        run(sft, [*words, "epochs=2", "resume=true"])


def test_an_epoch_has_so_many_steps_and_each_is_exported(
    sft: ModuleType,
    torchtune_job: Job,
    torchtune_llama: SimpleNamespace,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    more = ["max_steps_per_epoch=2", "epochs=2", "gradient_accumulation_steps=1", "export_every_n_steps=3"]
    words = torchtune_job(torchtune_llama.LORA, *more, "save_adapter_weights_only=true", "log_every_n_steps=2")
    run(sft, words)
    out = tmp_path / "out"
    assert len(lines_of(out)) == 4
    assert sorted(folder.name for folder in out.glob("*_[0-9]")) == ["epoch_0", "epoch_1", "step_3"]
    assert not (out / "epoch_1" / "model.safetensors").exists()
    assert (out / "epoch_1" / "adapter" / "adapter_model.safetensors").is_file()
    (logged,) = (out / "logs").iterdir()
    assert [line.split()[1] for line in logged.read_text().splitlines()] == ["2", "4"]


def test_an_export_that_fails_loses_no_step_and_is_made_on_resume(
    sft: ModuleType, torchtune_job: Job, torchtune_llama: SimpleNamespace, tmp_path: Path
) -> None:
    more = ["max_steps_per_epoch=2", "epochs=2", "gradient_accumulation_steps=1", "seed=1", "max_generated_tokens=0"]
    words = torchtune_job(torchtune_llama.LORA, *more, "num_rows_for_training_loss=0")
    run(sft, [*words, f"output_dir={tmp_path / 'whole'}"])
    out = tmp_path / "out"
    (out / "epoch_0").mkdir(parents=True)
    (out / "epoch_0" / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match=r"epoch_0 holds notes\.txt"):
        run(sft, words)
    assert newest(out).name == "step_00000002"
    (out / "epoch_0" / "notes.txt").unlink()
    run(sft, [*words, "resume=true"])
    for epoch in ("epoch_0", "epoch_1"):
        assert same(out / epoch / "model.safetensors", tmp_path / "whole" / epoch / "model.safetensors")


# What torch's compiler does with its own tensors and functions.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
def test_activation_checkpointing_compiling_and_a_profile_change_no_weight(
    sft: ModuleType,
    torchtune_job: Job,
    torchtune_llama: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("TORCH_COMPILE_BACKEND", "eager")
    words = torchtune_job(torchtune_llama.LORA, "seed=1", "dtype=fp32", "gradient_accumulation_steps=2")
    profile = ["enabled=True", "wait_steps=0", "warmup_steps=1", "active_steps=1", "cuda=False"]
    variants = {
        "plain": [],
        "checkpointed": ["enable_activation_checkpointing=True"],
        "compiled": ["compile=True"],
        "profiled": [f"profiler.{word}" for word in profile],
        "static": ["static_shapes=true"],
    }
    for name, more in variants.items():
        run(sft, [*words, *more, f"output_dir={tmp_path / name}"])
    assert list((tmp_path / "profiled" / "profiling_outputs").glob("iteration_*/*.json.gz"))
    plain = load_file(newest(tmp_path / "plain") / "adapter.safetensors")
    for name in variants:
        other = load_file(newest(tmp_path / name) / "adapter.safetensors")
        for key, tensor in plain.items():
            torch.testing.assert_close(other[key], tensor, rtol=1e-4, atol=1e-6)


def test_the_best_checkpoint_is_that_of_the_lowest_held_out_loss(
    sft: ModuleType, tiny_config: Callable[..., Any], tmp_path: Path
) -> None:
    more = {"run_val_every_n_steps": 1, "keep_best_checkpoint": True, "keep_last_n_checkpoints": 1, "plot": True}
    cfg = tiny_config(max_steps=6, epochs=6, optimizer__lr=0.3, dataset_val__packed=False, **more)
    sft.main(cfg)
    losses = {line["step"]: line["held_out_loss"] for line in lines_of(tmp_path / "out") if "held_out_loss" in line}
    state = json.loads((tmp_path / "out" / "checkpoints" / "best" / "state.json").read_text())
    assert state["step"] == min(losses, key=lambda step: losses[step])
    assert state["best_loss"] == min(losses.values())
    assert (tmp_path / "out" / "loss.png").stat().st_size > 1000


def test_a_loss_that_is_no_number_ends_the_run_with_its_rows(
    sft: ModuleType, tiny_config: Callable[..., Any], tmp_path: Path
) -> None:
    cfg = tiny_config(optimizer__lr=1e30, batch_size=2, save_every_n_steps=1, max_steps=9, epochs=9)
    with pytest.raises(
        NonFiniteLossError, match=r"Step \d: the loss is nan. .* from pack \d+ \(rows [\d, ]+ of .*\.json"
    ):
        sft.main(cfg)
    assert newest(tmp_path / "out").is_dir()


@pytest.mark.parametrize(
    ("words", "error", "sentence"),
    [
        (["dtype=fp16"], ConfigError, "dtype is fp16, in which small gradients become 0"),
        (["clip_grad_norm=-1"], ConfigError, "clip_grad_norm is -1. Give a number above 0, or null to do without"),
        (["max_steps_per_epoch=0"], ConfigError, "max_steps_per_epoch is 0"),
        (["keep_best_checkpoint=true"], ConfigError, "keep_best_checkpoint goes by the held-out loss. Set dataset_val"),
        (["checkpointer=null", "export_every_n_steps=2"], ConfigError, "export_every_n_steps is for a checkpointer"),
        (["tensor_parallel_dim=2"], ConfigError, "tensor_parallel_dim can't be used here. There is no tensor parallel"),
        (["quantizer=x"], ConfigError, "quantizer can't be used here. Training with quantization is not here"),
        (["model=torchpipe.models.llama3_2.qlora_llama3_2_1b"], ConfigError, "It keeps the base weights in 4 bits"),
        (
            ["checkpointer.model_type=GEMMA"],
            ConfigError,
            "model_type is 'GEMMA', whose weights torchpipe does not read",
        ),
        (["checkpointer.recipe_checkpoint=x.pt"], ConfigError, "the recipe goes on from output_dir with resume=true"),
        (["checkpointer.checkpoint_files=[other.safetensors]"], CheckpointError, "other.safetensors"),
        (["loss=torchpipe.modules.loss.ForwardKLLoss"], ConfigError, "has no 'ForwardKLLoss'"),
    ],
)
def test_what_can_not_be_done_is_one_sentence(
    sft: ModuleType,
    torchtune_job: Job,
    torchtune_llama: SimpleNamespace,
    words: list[str],
    error: type[Exception],
    sentence: str,
    tmp_path: Path,
) -> None:
    with pytest.raises(error, match=sentence):
        run(sft, torchtune_job(torchtune_llama.LORA, *words, rows=4))
    assert not (tmp_path / "out").exists()
