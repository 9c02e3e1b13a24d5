"""The sft recipe: it trains, it resumes to the bit, and it says no before a model is built."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from safetensors.torch import load_file

from torchpipe import config
from torchpipe.audit.plan_report import plan_config
from torchpipe.data import padded_collate_packed, padded_collate_sft
from torchpipe.datasets import instruct_dataset
from torchpipe.errors import CheckpointError, ConfigError, DataError, SourceError
from torchpipe.models.tiny import tiny_llama3, tiny_tokenizer
from torchpipe.modules import TransformerDecoder
from torchpipe.modules.losses import LinearCrossEntropyLoss
from torchpipe.training import mean_loss, set_seed

Build = Callable[..., DictConfig]
PAIRS = {
    "_component_": "torchpipe.datasets.preference_dataset",
    "source": str(Path(__file__).parents[2] / "torchpipe" / "assets" / "sample_pairs.json"),
}


def weights_of(output_dir: str) -> dict[str, torch.Tensor]:
    newest = sorted((Path(output_dir) / "checkpoints").iterdir())[-1]
    return load_file(newest / "model.safetensors")


def same_weights(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def test_training_overfits_a_few_chats_and_says_so(
    sft: ModuleType, tiny_config: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    cfg = tiny_config(dataset__split="train[:4]", epochs=60, batch_size=1, model__embed_dim=64, optimizer__lr=1e-2)
    sft.main(cfg)
    out = capsys.readouterr().out
    before, after = (float(part.split()[-2]) for part in out.split("training loss: ")[1].split("\n")[0].split(","))
    assert after < 0.5 * before
    assert "held-out loss:" in out
    assert "generation from the prompt of the first sample:" in out
    log = [json.loads(line) for line in (Path(cfg.output_dir) / "log.jsonl").read_text().splitlines()]
    assert log[-1]["loss"] < 0.5 * log[0]["loss"]


@pytest.mark.parametrize("packed", [True, False])
def test_a_list_of_dataset_sections_is_trained_on_as_one(
    sft: ModuleType, tiny_config: Build, capsys: pytest.CaptureFixture[str], packed: bool
) -> None:
    cfg = tiny_config(max_steps=1, dataset__packed=packed)
    OmegaConf.resolve(cfg)  # dataset_val takes some of its keys from dataset
    cfg.dataset = [{**cfg.dataset, "split": "train[:5]"}, {**cfg.dataset, "split": "train[5:12]"}]
    sft.main(cfg)
    assert "training rows: 12 rows" in capsys.readouterr().out


def test_a_mix_says_its_shares_and_each_held_out_source_its_loss(
    sft: ModuleType, tiny_config: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    cfg = tiny_config(max_steps=2, run_val_every_n_steps=1, dataset__packed=False, dataset__cache=True)
    OmegaConf.resolve(cfg)
    cfg.dataset = [
        {**cfg.dataset, "split": "train[:6]", "weight": 2, "name": "short"},
        {**cfg.dataset, "split": "train[6:24]", "weight": 1, "name": "long"},
    ]
    cfg.dataset_val = {name: {**cfg.dataset_val, "split": split} for name, split in PARTS.items()}
    sft.main(cfg)
    out = capsys.readouterr().out
    assert "training rows: 9 rows" in out
    assert "training rows, mixed: 9 rows of 2 data sets by rows: short 66.7% (asked for 66.7%; 6 places" in out
    assert "held-out rows of short: 3 rows" in out
    for name in ("held-out", "held-out short", "held-out long"):
        assert f"\n{name} loss: " in out
    log = [json.loads(line) for line in (Path(cfg.output_dir) / "log.jsonl").read_text().splitlines()]
    held_out = [line for line in log if "held_out_loss" in line]
    assert [set(line["held_out_losses"]) for line in held_out] == [{"held-out short", "held-out long"}] * 2
    for line in held_out:
        assert min(line["held_out_losses"].values()) < line["held_out_loss"] < max(line["held_out_losses"].values())


def test_a_packed_mix_goes_on_to_the_bit_and_its_plan_is_that_of_the_run(
    sft: ModuleType, tiny_config: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def mixed(output_dir: str, **options: Any) -> Any:
        cfg = tiny_config(output_dir=str(tmp_path / output_dir), dataset__packed=False, **options)
        OmegaConf.resolve(cfg)
        part = {**cfg.dataset, "cache": True}
        cfg.dataset_val.packed = True
        names = {"short": {**part, "split": "train[:6]"}, "long": {**part, "split": "train[6:24]"}}
        mix = {"_component_": "torchpipe.datasets.MixDataset", "datasets": names, "weights": {"short": 1, "long": 2}}
        mix |= {"by": "trained_tokens", "stop": "all"}
        cfg.dataset = {"_component_": "torchpipe.datasets.PackedDataset", "ds": mix, "strategy": "best_fit_decreasing"}
        return cfg

    sft.main(mixed("whole", max_steps=4, epochs=3, batch_size=2))
    for steps in (1, 3, 4):
        sft.main(mixed("parts", max_steps=steps, epochs=3, batch_size=2, resume=True))
    assert same_weights(weights_of(str(tmp_path / "whole")), weights_of(str(tmp_path / "parts")))
    printed = capsys.readouterr().out
    (train, _) = plan_config(mixed("plan", batch_size=2)).sections
    assert f"training rows: {train.counts.describe()}" in printed
    assert "training rows, mixed: " in printed
    assert train.num_items == len(train.steps) * 2 - train.num_padding_items


PARTS = {"short": "train[-6:-3]", "long": "train[-3:]"}


def test_the_first_sample_is_shown_with_what_is_trained(
    sft: ModuleType, tiny_config: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    sft.main(tiny_config(max_steps=1, dataset__strategy="next_fit"))
    out = capsys.readouterr().out
    assert "training rows: 24 rows" in out
    assert "\ntraining rows, packed: 9 packs, " in out
    assert "\nsteps: 1; 4 packs a step and 0 padding packs = world size 1" in out
    assert "held-out rows: 8 rows" in out
    trained = next(line for line in out.splitlines() if line.lstrip().startswith("trained"))
    assert "Rinse the rice in cold water" in trained
    assert trained.endswith("<|eot_id|>")
    assert "<|start_header_id|>" not in trained


@pytest.mark.parametrize("packed", [True, False])
def test_stop_and_resume_gives_the_same_weights_to_the_bit(
    sft: ModuleType, tiny_config: Build, tmp_path: Path, packed: bool
) -> None:
    options: dict[str, Any] = {"dataset__packed": packed, "dataset_val__packed": packed, "batch_size": 2, "epochs": 3}
    whole = tiny_config(output_dir=str(tmp_path / "whole"), max_steps=7, **options)
    sft.main(whole)
    for steps in (2, 5, 7):
        sft.main(tiny_config(output_dir=str(tmp_path / "parts"), max_steps=steps, resume=True, **options))
    assert same_weights(weights_of(whole.output_dir), weights_of(str(tmp_path / "parts")))
    logs = [
        [
            (line["step"], line["loss"])
            for line in map(json.loads, (tmp_path / name / "log.jsonl").read_text().splitlines())
        ]
        for name in ("whole", "parts")
    ]
    assert logs[0] == logs[1]


def test_a_new_process_resumes_to_the_bit(
    sft: ModuleType, tiny_config: Build, tmp_path: Path, torchpipe_command: Callable[..., Any]
) -> None:
    whole = tiny_config(output_dir=str(tmp_path / "whole"), max_steps=4, batch_size=2)
    parts = tiny_config(output_dir=str(tmp_path / "parts"), max_steps=4, batch_size=2)
    sft.main(whole)
    sft.main(tiny_config(output_dir=str(tmp_path / "parts"), max_steps=2, batch_size=2))
    OmegaConf.save(parts, tmp_path / "parts.yaml")
    resumed = torchpipe_command("run", "sft", "--config", "parts.yaml", "resume=true")
    assert "resumed at step 2 of 4" in resumed.stdout
    assert same_weights(weights_of(whole.output_dir), weights_of(parts.output_dir))


def test_accumulation_gives_the_gradient_of_one_big_batch(sft: ModuleType, tiny_config: Build, tmp_path: Path) -> None:
    """Rows of very different trained lengths: a mean of micro-batch means would weigh them wrongly."""
    found = []
    for name, batch_size, accumulation in (("big", 4, 1), ("split", 1, 4)):
        cfg = tiny_config(
            output_dir=str(tmp_path / name),
            dataset__packed=False,
            dataset_val__packed=False,
            batch_size=batch_size,
            gradient_accumulation_steps=accumulation,
            max_steps=2,
        )
        OmegaConf.update(cfg, "optimizer", {"_component_": "torch.optim.SGD", "lr": 0.5}, merge=False)
        sft.main(cfg)
        found.append(weights_of(cfg.output_dir))
    for name in found[0]:
        torch.testing.assert_close(found[0][name], found[1][name], rtol=1e-5, atol=1e-6)


def test_packed_and_unpacked_rows_have_the_same_loss_on_the_same_weights(shared_data: Path) -> None:
    tokenizer = tiny_tokenizer(max_seq_len=1024)
    set_seed(0)
    model = tiny_llama3(tokenizer.vocab_size)
    loss_fn = LinearCrossEntropyLoss()
    loss_fn.set_model_output(model)
    found = {}
    for packed in (False, True):
        rows = instruct_dataset(
            tokenizer,
            source="json",
            data_files=str(shared_data / "gsm8k" / "train.jsonl"),
            split="train[:40]",
            column_map={"input": "question", "output": "answer"},
            packed=packed,
        )
        samples = [rows[i] for i in range(len(rows))]
        for mask in ("dense", "varlen") if packed else ("none",):
            batches: Any = (
                [padded_collate_packed(samples[i : i + 2], mask=mask) for i in range(0, len(samples), 2)]  # pyright: ignore[reportArgumentType]
                if packed
                else [padded_collate_sft(samples[i : i + 5]) for i in range(0, len(samples), 5)]
            )
            found[mask] = mean_loss(model, loss_fn, batches, torch.device("cpu"))
    assert found["dense"] == pytest.approx(found["none"], rel=1e-5)
    assert found["varlen"] == pytest.approx(found["none"], rel=1e-5)


def test_validation_is_logged_and_changes_nothing(sft: ModuleType, tiny_config: Build, tmp_path: Path) -> None:
    plain = tiny_config(output_dir=str(tmp_path / "plain"), max_steps=3, batch_size=2)
    validated = tiny_config(output_dir=str(tmp_path / "val"), max_steps=3, batch_size=2, run_val_every_n_steps=2)
    sft.main(plain)
    sft.main(validated)
    assert same_weights(weights_of(plain.output_dir), weights_of(validated.output_dir))
    log = [json.loads(line) for line in (tmp_path / "val" / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log if "held_out_loss" in line] == [2]


def test_checkpoints_are_kept_as_told(sft: ModuleType, tiny_config: Build) -> None:
    cfg = tiny_config(batch_size=1, max_steps=6, save_every_n_steps=2, keep_last_n_checkpoints=2)
    sft.main(cfg)
    names = sorted(entry.name for entry in (Path(cfg.output_dir) / "checkpoints").iterdir())
    assert names == ["step_00000004", "step_00000006"]


# Refusals


def test_an_earlier_run_is_not_overwritten_unasked(sft: ModuleType, tiny_config: Build) -> None:
    sft.main(tiny_config(max_steps=1))
    with pytest.raises(CheckpointError, match=r"already holds a run, up to step_00000001. resume=true goes on"):
        sft.main(tiny_config(max_steps=1))
    sft.main(tiny_config(max_steps=1, overwrite=True))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"batch_size": 2, "seed": 1}, "batch_size was 4 and is 2; seed was 0 and is 1"),
        ({"optimizer__lr": 0.5}, "optimizer.lr was 0.0015 and is 0.5"),
        ({"model__num_layers": 2}, "model.num_layers was 1 and is 2"),
        ({"dataset__packed": False}, "dataset.packed was True and is False"),
        ({"tokenizer__mask_policy": "message"}, "tokenizer.mask_policy was 'sampled' and is 'message'"),
        ({"dataset__masking_strategy": "train_on_all"}, "dataset.masking_strategy was None and is 'train_on_all'"),
    ],
)
def test_resuming_another_run_is_refused_by_naming_the_field(
    sft: ModuleType, tiny_config: Build, changes: dict[str, Any], sentence: str
) -> None:
    sft.main(tiny_config(max_steps=1))
    with pytest.raises(CheckpointError, match=sentence):
        sft.main(tiny_config(max_steps=2, resume=True, **changes))


def test_resuming_on_changed_rows_is_refused_wherever_the_file_lies(
    sft: ModuleType, tiny_config: Build, tmp_path: Path, repository: Path
) -> None:
    chats = (repository / "torchpipe" / "assets" / "sample_chats.json").read_text(encoding="utf-8")
    sft.main(tiny_config(max_steps=1))
    (tmp_path / "same.json").write_text(chats, encoding="utf-8")
    sft.main(tiny_config(max_steps=2, resume=True, data_file=str(tmp_path / "same.json")))
    (tmp_path / "other.json").write_text(chats.replace("Rinse the rice", "Wash the rice"), encoding="utf-8")
    with pytest.raises(CheckpointError, match="tokens and labels was"):
        sft.main(tiny_config(max_steps=3, resume=True, data_file=str(tmp_path / "other.json")))


def test_resume_without_a_checkpoint_says_that_it_starts(
    sft: ModuleType, tiny_config: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    sft.main(tiny_config(max_steps=1, resume=True))
    assert "holds no checkpoint yet: starting at step 0" in capsys.readouterr().out


@pytest.mark.parametrize("change", [{"data_file": "gone.json"}, {"optimizer__lrr": 1.0}, {"model__embed_dim": -1}])
def test_overwrite_keeps_the_earlier_run_until_the_new_one_can_start(
    sft: ModuleType, tiny_config: Build, change: dict[str, Any]
) -> None:
    cfg = tiny_config(max_steps=1)
    sft.main(cfg)
    with pytest.raises((SourceError, ConfigError)):
        sft.main(tiny_config(max_steps=1, overwrite=True, **change))
    assert weights_of(cfg.output_dir)


def test_a_refused_run_leaves_no_output_folder(sft: ModuleType, tiny_config: Build) -> None:
    cfg = tiny_config(data_file="gone.json")
    with pytest.raises(SourceError):
        sft.main(cfg)
    assert not Path(cfg.output_dir).exists()


def test_held_out_rows_can_be_left_out_with_one_key(sft: ModuleType, tiny_config: Build) -> None:
    sft.main(tiny_config(max_steps=1, dataset_val=None, run_val_every_n_steps=10))


@pytest.mark.parametrize("num_rows", [1, 2])
def test_a_file_of_very_few_rows_says_how_to_go_on(
    sft: ModuleType, tiny_config: Build, tmp_path: Path, num_rows: int
) -> None:
    row = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]}
    (tmp_path / "few.json").write_text(json.dumps([row] * num_rows))
    few = {"data_file": str(tmp_path / "few.json"), "dataset__split": "train[:90%]", "max_steps": 1}
    with pytest.raises(SourceError, match="dataset_val=null"):
        sft.main(tiny_config(dataset_val__split="train[90%:]", **few))
    sft.main(tiny_config(dataset_val=None, **few))


def test_a_filter_can_be_named_in_yaml(sft: ModuleType, tiny_config: Build, capsys: pytest.CaptureFixture[str]) -> None:
    sft.main(tiny_config(max_steps=1, dataset__filter_fn=f"{__name__}.is_cooking"))
    assert "more rows left out by filter_fn" in capsys.readouterr().out


def is_cooking(row: dict[str, Any]) -> bool:
    return row["topic"] == "cooking"


@pytest.mark.filterwarnings("ignore:Row 0 of .* has no token that is trained")
@pytest.mark.parametrize(
    ("overrides", "error", "sentence"),
    [
        ({"data_file": "gone.json"}, SourceError, "There is no file gone.json"),
        ({"dataset__conversation_column": "chats"}, DataError, r"Row 0 of .*sample_chats.json.*'chats'"),
        ({"dataset__conversation_style": "sharegpt"}, DataError, "conversation_style: openai"),
        ({"tokenizer__max_seq_len": None}, ConfigError, "max_seq_len has to be set on the tokenizer"),
        ({"batch_size": 0}, ConfigError, "batch_size is 0"),
        ({"save_every_n_steps": -1}, ConfigError, "save_every_n_steps is -1"),
        ({"batchsize": 4}, ConfigError, "'batchsize' is not a key of this recipe. Did you mean 'batch_size'"),
        ({"loss": None}, ConfigError, "The config has no 'loss'"),
        ({"device": "cuda"}, ConfigError, "torch sees no CUDA device"),
        ({"resume": True, "overwrite": True}, ConfigError, "Set one of them"),
        ({"optimizer__lrr": 1.0}, ConfigError, "lrr"),
        ({"dataset__packd": True}, ConfigError, "'packd' is not an option .* Did you mean 'packed'"),
        ({"collate_fn": "torchpipe.data.padded_colate_sft"}, ConfigError, "padded_collate_sft"),
        ({"tokenizer__max_seq_len": 12, "dataset__packed": False}, ConfigError, "no token is trained"),
    ],
)
def test_a_bad_input_is_one_sentence_before_a_model_is_built(
    sft: ModuleType, tiny_config: Build, overrides: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        sft.main(tiny_config(**{"model__embed_dim": -1, **overrides}))  # that model can't be built


@pytest.mark.parametrize("key", ["dataset", "dataset_val"])
def test_pairs_are_refused_with_the_recipe_that_trains_on_them(sft: ModuleType, tiny_config: Build, key: str) -> None:
    cfg = tiny_config(model__embed_dim=-1, dataset_val=None)
    cfg[key] = PAIRS
    with pytest.raises(ConfigError, match="Recipe sft trains on samples .* are pairs: `torchpipe run dpo` trains on"):
        sft.main(cfg)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"model__vocab_size": 300}, "the model has 300 embeddings"),
        ({"model__max_seq_len": 64}, "the model takes 64"),
    ],
)
def test_a_model_that_the_rows_do_not_fit_is_refused(
    sft: ModuleType, tiny_config: Build, overrides: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        sft.main(tiny_config(**overrides))


def test_processes_that_can_not_meet_are_refused(
    sft: ModuleType, tiny_config: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="WORLD_SIZE is 2 and RANK, MASTER_ADDR, MASTER_PORT not set.*with torchrun"):
        sft.main(tiny_config())


def test_a_refusal_is_one_plain_sentence_on_the_command_line(
    tmp_path: Path, torchpipe_command: Callable[..., Any]
) -> None:
    good = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}'
    (tmp_path / "bad.jsonl").write_text(f'{good}\n{{"messages": [\n')
    result = torchpipe_command("run", "sft", "--config", "tiny/sft", "data_file=bad.jsonl", "output_dir=out")
    assert result.returncode == 1
    assert "bad.jsonl, line 2 is not valid JSON" in result.stderr
    assert "Traceback" not in result.stderr


def test_every_shipped_config_builds_its_parts(repository: Path, sft: ModuleType) -> None:
    configs = sorted((repository / "configs").rglob("sft.yaml"))
    assert configs
    for file in configs:
        loaded = OmegaConf.load(file)
        assert isinstance(loaded, DictConfig)
        assert set(map(str, loaded)) <= set(sft.KEYS)
        config.validate(loaded)
        with torch.device("meta"):
            assert isinstance(config.instantiate(loaded.model), TransformerDecoder)


def chats_file(path: Path, *weights: float | None) -> str:
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"What is {number} + {number}?"},
                {"role": "assistant", "content": f"It is {2 * number}.", "weight": weight},
            ]
        }
        for number, weight in enumerate(weights)
    ]
    path.write_text(json.dumps(rows))
    return str(path)


@pytest.mark.parametrize("packed", [True, False])
def test_weights_of_messages_reach_the_gradient_however_rows_are_batched(
    sft: ModuleType, tiny_config: Build, tmp_path: Path, packed: bool
) -> None:
    one, other = (0.5, 2.0, None, 0.25), (1, 1, 1, 1)
    common = {
        "dataset_val": None,
        "dataset__split": "train",
        "dataset__packed": packed,
        "tokenizer__max_seq_len": 64,
        "epochs": 2,
        "shuffle": False,
    }
    found = {}
    for name, weights, batch_size, accumulation in (
        ("whole", one, 4, 1),
        ("parts", one, 1, 4),
        ("twice", tuple(2 * (weight or 1) for weight in one), 4, 1),
        ("plain", other, 4, 1),
    ):
        cfg = tiny_config(
            **common,
            data_file=chats_file(tmp_path / f"{name}.json", *weights),
            output_dir=str(tmp_path / name),
            batch_size=batch_size,
            gradient_accumulation_steps=accumulation,
        )
        cfg.optimizer = {"_component_": "torch.optim.SGD", "lr": 0.5}
        sft.main(cfg)
        found[name] = weights_of(cfg.output_dir)
    for name, tensor in found["whole"].items():
        torch.testing.assert_close(found["parts"][name], tensor, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(found["twice"][name], tensor, rtol=1e-4, atol=1e-6)
    assert not all(torch.allclose(found["plain"][name], tensor, rtol=1e-4) for name, tensor in found["whole"].items())


def test_weights_and_a_loss_without_a_place_for_them_are_refused(
    sft: ModuleType, tiny_config: Build, tmp_path: Path
) -> None:
    cfg = tiny_config(
        dataset_val=None,
        dataset__split="train",
        dataset__packed=False,
        data_file=chats_file(tmp_path / "chats.json", 0.5),
        loss={"_component_": "torch.nn.CrossEntropyLoss"},
    )
    with pytest.raises(ConfigError, match="the loss CrossEntropyLoss takes no loss_weights"):
        sft.main(cfg)
