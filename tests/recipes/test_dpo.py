"""The dpo recipe: it learns preferences that hold for held-out pairs, resumes to the bit, and says no early."""

import importlib.util
import json
import math
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from run_folders import Build, same_weights, weights_of

from torchpipe import config
from torchpipe._shipped_files import pairs_file
from torchpipe.config.parse import RecipeArgumentParser
from torchpipe.errors import CheckpointError, ConfigError, DataError, NonFiniteLossError
from torchpipe.modules import TransformerDecoder

LORA = {
    "_component_": "torchpipe.models.llama3_2.lora_llama3_2",
    "vocab_size": 2304,
    "num_layers": 1,
    "num_heads": 4,
    "num_kv_heads": 2,
    "embed_dim": 32,
    "intermediate_dim": 64,
    "max_seq_len": 1024,
    "lora_attn_modules": ["q_proj", "v_proj"],
    "apply_lora_to_mlp": True,
    "lora_rank": 8,
    "lora_alpha": 16,
    "lora_dropout": 0.0,
}


@pytest.fixture(scope="session")
def dpo(repository: Path) -> ModuleType:
    """recipes/dpo.py as a module; ``dpo.main(cfg)`` trains."""
    spec = importlib.util.spec_from_file_location("dpo_recipe", repository / "recipes" / "dpo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def pairs_config(repository: Path, tmp_path: Path) -> Build:
    """Function (model=, **overrides) -> configs/tiny/dpo.yaml on 16 sample pairs, small enough for a test.

    ``model`` is a whole section; in the other names a double underscore stands for a dot.
    """

    def build(model: dict[str, Any] | None = None, **overrides: Any) -> DictConfig:
        cfg = OmegaConf.load(repository / "configs" / "tiny" / "dpo.yaml")
        assert isinstance(cfg, DictConfig)
        small = {
            "data_file": str(pairs_file()),
            "output_dir": str(tmp_path / "out"),
            "dataset.split": "train[:16]",
            "dataset_val.split": "train[-8:]",
            "run_val_every_n_steps": None,
            "model.num_layers": 1,
            "model.embed_dim": 32,
            "model.intermediate_dim": 64,
            "num_rows_for_training_loss": 8,
            "max_generated_tokens": 2,
            "log_every_n_steps": 1,
        }
        for key, value in {**small, **{k.replace("__", "."): v for k, v in overrides.items()}}.items():
            OmegaConf.update(cfg, key, value)
        if model is not None:
            OmegaConf.update(cfg, "model", model, merge=False)
        return cfg

    return build


def log_of(output_dir: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(output_dir) / "log.jsonl").read_text().splitlines()]


def margins(out: str, name: str) -> tuple[float, float]:
    """What was printed at the end as the reward margin of some pairs, before and after."""
    words = out.split(f"{name} pairs: reward margin ")[1].split()
    return float(words[0]), float(words[2])


# It learns


@pytest.mark.parametrize(("model", "lr"), [(None, 1e-3), (LORA, 5e-3)], ids=["all weights", "adapters"])
def test_the_margin_grows_on_held_out_pairs(
    dpo: ModuleType, pairs_config: Build, capsys: pytest.CaptureFixture[str], model: dict[str, Any] | None, lr: float
) -> None:
    cfg = pairs_config(
        model, dataset__split="train[:80%]", dataset_val__split="train[80%:]", optimizer__lr=lr, epochs=3, max_steps=40
    )
    OmegaConf.update(cfg, "run_val_every_n_steps", 20)
    dpo.main(cfg)
    out = capsys.readouterr().out
    before, after = margins(out, "held-out")
    assert before == pytest.approx(0.0, abs=1e-3)
    assert after > 0.5
    lines = log_of(cfg.output_dir)
    assert lines[0]["loss"] == pytest.approx(math.log(2), abs=1e-5)
    assert lines[0]["reward_margin"] == pytest.approx(0.0, abs=1e-4)
    held_out = [line for line in lines if "held_out_loss" in line]
    assert [line["step"] for line in held_out] == [20, 40]
    assert held_out[-1]["held_out_reward_margin"] == pytest.approx(after, abs=1e-3)
    assert held_out[-1]["held_out_reward_accuracy"] >= 0.9
    assert held_out[-1]["held_out_loss"] < math.log(2)


def test_both_sides_of_the_first_pair_are_shown_and_what_the_reference_is(
    dpo: ModuleType, pairs_config: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    dpo.main(pairs_config(max_steps=1, shuffle=False, num_rows_for_training_loss=6))
    out = capsys.readouterr().out
    assert "training pairs: 16 pairs, 3,236 tokens of both sides, " in out
    trained = [line for line in out.splitlines() if line.lstrip().startswith("trained")]
    assert "Rinse the rice in cold water" in trained[0]
    assert "Great question!" in trained[1]
    assert all(line.endswith("<|eot_id|>") for line in trained)
    # Those of the one step, and those that are measured: not all 16.
    assert "reference: log-probabilities of 6 training pairs, computed once" in out
    dpo.main(pairs_config(LORA, max_steps=1, overwrite=True))
    assert "reference: the model with its adapters off, asked at every step" in capsys.readouterr().out


def test_adapters_start_at_log_2_to_the_bit_and_leave_the_base_as_it_is(dpo: ModuleType, pairs_config: Build) -> None:
    cfg = pairs_config(LORA, max_steps=2)
    dpo.main(cfg)
    first = log_of(cfg.output_dir)[0]
    assert first["loss"] == pytest.approx(math.log(2), abs=1e-7)
    assert first["reward_margin"] == first["chosen_reward"] == first["rejected_reward"] == 0.0
    assert all("lora" in name for name in weights_of(cfg.output_dir))


def test_real_pairs_are_learned_too(
    dpo: ModuleType, pairs_config: Build, shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_real_pairs(dpo, pairs_config, shared_data, capsys, rows=40, steps=20, layers=1)


@pytest.mark.soak
def test_all_real_pairs_are_learned_too(
    dpo: ModuleType, pairs_config: Build, shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_real_pairs(dpo, pairs_config, shared_data, capsys, rows=180, steps=144, layers=4)


def check_real_pairs(
    dpo: ModuleType,
    pairs_config: Build,
    shared_data: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    rows: int,
    steps: int,
    layers: int,
) -> None:
    """A file of LLaMA-Factory's, whose pairs are a prompt and two answers; long answers are cut."""
    columns = {"prompt": "conversations", "chosen": "chosen", "rejected": "rejected"}
    split = rows * 4 // 5
    cfg = pairs_config(
        data_file=str(shared_data / "llamafactory" / "dpo_en_demo.json"),
        dataset__split=f"train[:{split}]",
        dataset_val__split=f"train[{split}:{rows}]",
        tokenizer__max_seq_len=384,
        optimizer__lr=5e-4,
        epochs=8,
        max_steps=steps,
        model__num_layers=layers,
    )
    for section in ("dataset", "dataset_val"):
        cfg[section].update({"column_map": columns, "overflow": "truncate", "max_prompt_len": 192})
    dpo.main(cfg)
    out = capsys.readouterr().out
    assert margins(out, "training")[1] > 0.2
    assert margins(out, "held-out")[1] > 0.0


# It goes on


@pytest.mark.parametrize("model", [None, {**LORA, "lora_dropout": 0.2}], ids=["all weights", "adapters"])
def test_stop_and_resume_gives_the_same_weights_to_the_bit(
    dpo: ModuleType, pairs_config: Build, tmp_path: Path, model: dict[str, Any] | None
) -> None:
    options: dict[str, Any] = {"epochs": 2, "batch_size": 3, "clip_grad_norm": 0.5}
    whole = pairs_config(model, output_dir=str(tmp_path / "whole"), max_steps=7, **options)
    dpo.main(whole)
    for steps in (2, 5, 7):
        dpo.main(pairs_config(model, output_dir=str(tmp_path / "parts"), max_steps=steps, resume=True, **options))
    assert same_weights(weights_of(whole.output_dir), weights_of(tmp_path / "parts"))
    logs = [[(line["step"], line["loss"]) for line in log_of(tmp_path / name)] for name in ("whole", "parts")]
    assert logs[0] == logs[1]


def test_a_run_that_is_killed_and_resumed_ends_with_the_same_weights(
    dpo: ModuleType, pairs_config: Build, ended_run: Callable[..., int], tmp_path: Path
) -> None:
    options = {"max_steps": 10, "save_every_n_steps": 2, "batch_size": 2, "epochs": 2}
    whole = pairs_config(output_dir=str(tmp_path / "whole"), **options)
    dpo.main(whole)
    OmegaConf.save(whole, tmp_path / "config.yaml")
    words = ["dpo", "--config", str(tmp_path / "config.yaml"), f"output_dir={tmp_path / 'cut'}"]
    (tmp_path / "cut").mkdir()
    assert ended_run(*words, folder=tmp_path / "cut", steps=3) == -signal.SIGKILL
    ended_run(*words, folder=tmp_path / "cut", steps=10**9)
    assert same_weights(weights_of(whole.output_dir), weights_of(tmp_path / "cut"))
    assert [line["step"] for line in log_of(tmp_path / "cut")] == list(range(1, 11))


class TermAtStep3:
    """A metric logger that sends SIGTERM to its own process, once."""

    def log_config(self, config: Any) -> None:
        pass

    def log_dict(self, payload: dict[str, Any], step: int) -> None:
        if step == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    def close(self) -> None:
        pass


def test_a_run_that_gets_sigterm_ends_after_its_step_and_goes_on(
    dpo: ModuleType, pairs_config: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"max_steps": 6, "batch_size": 2}
    dpo.main(pairs_config(output_dir=str(tmp_path / "whole"), **options))
    logger = {"_component_": f"{__name__}.TermAtStep3"}
    dpo.main(pairs_config(output_dir=str(tmp_path / "cut"), metric_logger=logger, **options))
    assert "SIGTERM: ended after step 3 of 6, saved as" in capsys.readouterr().out
    dpo.main(pairs_config(output_dir=str(tmp_path / "cut"), resume=True, **options))
    assert same_weights(weights_of(tmp_path / "whole"), weights_of(tmp_path / "cut"))


def test_what_was_measured_before_training_is_kept_for_the_end(
    dpo: ModuleType, pairs_config: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    dpo.main(pairs_config(max_steps=3, optimizer__lr=1e-2))
    dpo.main(pairs_config(max_steps=4, optimizer__lr=1e-2, resume=True))
    out = capsys.readouterr().out.rpartition("resumed at step 3 of 4")[2]
    before, after = margins(out, "training")
    assert before == pytest.approx(0.0, abs=1e-3)
    assert after > before


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"loss__beta": 0.2}, "loss.beta was 0.1 and is 0.2"),
        ({"batch_size": 2}, "batch_size was 4 and is 2"),
        ({"dataset__split": "train[:12]"}, "dataset.split was 'train.:16.' and is 'train.:12.'"),
    ],
)
def test_resuming_another_run_is_refused_by_naming_the_field(
    dpo: ModuleType, pairs_config: Build, changes: dict[str, Any], sentence: str
) -> None:
    dpo.main(pairs_config(max_steps=1))
    with pytest.raises(CheckpointError, match=sentence):
        dpo.main(pairs_config(max_steps=2, resume=True, **changes))


# What a step is


def test_accumulation_gives_the_gradient_of_one_big_batch(dpo: ModuleType, pairs_config: Build, tmp_path: Path) -> None:
    """15 pairs in steps of 4: the last step has fewer, and a padding pair in the micro-batch that is not full."""
    found = []
    for size, accumulation in ((4, 1), (1, 4), (2, 2)):
        cfg = pairs_config(
            output_dir=str(tmp_path / f"of_{size}"),
            dataset__split="train[:15]",
            batch_size=size,
            gradient_accumulation_steps=accumulation,
        )
        OmegaConf.update(cfg, "optimizer", {"_component_": "torch.optim.SGD", "lr": 0.05}, merge=False)
        cfg.epochs = 1
        dpo.main(cfg)
        assert len(log_of(cfg.output_dir)) == 4
        found.append(weights_of(cfg.output_dir))
    for other in found[1:]:
        for name in found[0]:
            torch.testing.assert_close(other[name], found[0][name], rtol=1e-4, atol=1e-6)


def test_stored_pairs_give_the_same_weights(dpo: ModuleType, pairs_config: Build, tmp_path: Path) -> None:
    found = []
    for cache in (False, True):
        cfg = pairs_config(output_dir=str(tmp_path / f"cache_{cache}"), max_steps=3)
        for section in ("dataset", "dataset_val"):
            cfg[section].update({"cache": True, "cache_dir": str(tmp_path / "store")} if cache else {})
        cfg.balance = "none"  # a store knows lengths, and would spread them over micro-batches
        dpo.main(cfg)
        found.append(weights_of(cfg.output_dir))
    assert same_weights(*found)


def test_a_list_of_dataset_sections_is_trained_on_as_one(
    dpo: ModuleType, pairs_config: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    cfg = pairs_config(max_steps=2, dataset_val=None)
    OmegaConf.resolve(cfg)
    cfg.dataset = [{**cfg.dataset, "split": "train[:5]"}, {**cfg.dataset, "split": "train[5:12]"}]
    dpo.main(cfg)
    out = capsys.readouterr().out
    assert "training pairs: 12 pairs" in out
    assert "held-out" not in out
    cfg.dataset = [{**section, "packed": True} for section in cfg.dataset]
    cfg.overwrite = True
    with pytest.raises(ConfigError, match="dataset.packed is true, and dpo trains on single pairs"):
        dpo.main(cfg)


def test_the_best_checkpoint_is_kept_by_held_out_loss(dpo: ModuleType, pairs_config: Build) -> None:
    cfg = pairs_config(max_steps=3, run_val_every_n_steps=1, keep_best_checkpoint=True, optimizer__lr=1e-2)
    dpo.main(cfg)
    losses = {line["step"]: line["held_out_loss"] for line in log_of(cfg.output_dir) if "held_out_loss" in line}
    best = json.loads((Path(cfg.output_dir) / "checkpoints" / "best" / "state.json").read_text())
    assert best["step"] == min(losses, key=lambda step: losses[step])
    assert best["best_loss"] == min(losses.values())


def test_checkpointing_activations_changes_no_weight(dpo: ModuleType, pairs_config: Build, tmp_path: Path) -> None:
    found = []
    for on in (False, True):
        cfg = pairs_config(output_dir=str(tmp_path / f"{on}"), max_steps=2, enable_activation_checkpointing=on)
        dpo.main(cfg)
        found.append(weights_of(cfg.output_dir))
    assert same_weights(*found)


def test_a_loss_that_is_no_number_names_its_rows(dpo: ModuleType, pairs_config: Build) -> None:
    cfg = pairs_config(optimizer__lr=1e30, batch_size=2, shuffle=False)
    with pytest.raises(NonFiniteLossError, match=r"Step \d: the loss is nan. It was computed from rows \d, \d of "):
        dpo.main(cfg)


# It says no before a model is built


@pytest.mark.parametrize(
    ("overrides", "error", "sentence"),
    [
        ({"batchsize": 4}, ConfigError, "'batchsize' is not a key of this recipe. Did you mean 'batch_size'"),
        ({"dataset__packed": True}, ConfigError, "dataset.packed is true, and dpo trains on single pairs"),
        ({"loss__beta": 0}, ConfigError, "beta of DPOLoss is 0"),
        ({"resume": True, "overwrite": True}, ConfigError, "Set one of them"),
        ({"keep_best_checkpoint": True}, ConfigError, "Set dataset_val and run_val_every_n_steps"),
        ({"export_every_n_steps": 2}, ConfigError, "the config has none"),
        ({"ref_checkpointer": {"_component_": "torchpipe.training.FullModelHFCheckpointer"}}, ConfigError, "differ"),
        ({"device": "cuda"}, ConfigError, "torch sees no CUDA device"),
        ({"dataset__column_map": {"chosen": "best", "rejected": "rejected"}}, DataError, "'best'"),
        ({"model__max_seq_len": 64}, ConfigError, "the model takes 64"),
    ],
)
def test_a_bad_input_is_one_sentence(
    dpo: ModuleType, pairs_config: Build, overrides: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        dpo.main(pairs_config(**overrides))


def test_several_processes_are_refused(dpo: ModuleType, pairs_config: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(ConfigError, match="2 processes were started, and dpo trains on one device"):
        dpo.main(pairs_config())


# torchtune's configs


@pytest.mark.parametrize("kind", ["LORA", "FULL"])
def test_a_config_of_torchtunes_trains_as_it_is(
    dpo: ModuleType,
    torchtune_job: Callable[..., list[str]],
    torchtune_llama: SimpleNamespace,
    tmp_path: Path,
    kind: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The keys of 8B_lora_dpo_single_device and 8B_full_dpo, over the folder of a tiny Llama."""
    text = torchtune_llama.LORA if kind == "LORA" else torchtune_llama.FULL
    text = text.replace("torchtune.modules.loss.CEWithChunkedOutputLoss", "torchtune.rlhf.loss.DPOLoss")
    text = text.replace("torchtune.datasets.alpaca_cleaned_dataset", "torchtune.datasets.preference_dataset")
    text = text.replace("torchtune.datasets.alpaca_dataset", "torchtune.datasets.preference_dataset")
    text = text.replace("bitsandbytes.optim.PagedAdamW8bit", "torch.optim.AdamW")
    if kind == "FULL":
        section = text[text.index("checkpointer:") : text.index("resume_from")]
        text += f"ref_{section}"
    more = [] if kind == "LORA" else [f"ref_checkpointer.checkpoint_dir={tmp_path / 'Llama-3.2-1B-Instruct'}"]
    overrides = [f"dataset.data_files={pairs_file()}", "dataset.split=train[:8]", "seed=1", "dtype=fp32", *more]
    words = torchtune_job(text, *overrides, "gradient_accumulation_steps=1", "max_generated_tokens=0")
    dpo.main(RecipeArgumentParser().parse_config(words))
    out = capsys.readouterr().out
    assert "steps: 2; 4 packs a step" in out
    assert ("adapters off" in out) == (kind == "LORA")
    assert log_of(tmp_path / "out")[0]["loss"] == pytest.approx(math.log(2), abs=1e-4)
    exported = sorted(entry.name for entry in (tmp_path / "out" / "epoch_0").iterdir())
    assert "model.safetensors" in exported
    assert ("adapter" in exported) == (kind == "LORA")


def test_every_shipped_config_builds_its_parts(repository: Path, dpo: ModuleType) -> None:
    configs = sorted((repository / "configs").rglob("dpo.yaml"))
    assert len(configs) >= 2
    for file in configs:
        loaded = OmegaConf.load(file)
        assert isinstance(loaded, DictConfig)
        assert set(map(str, loaded)) <= set(dpo.KEYS)
        config.validate(loaded)
        with torch.device("meta"):
            assert isinstance(config.instantiate(loaded.model), TransformerDecoder)
