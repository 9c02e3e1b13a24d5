"""Recipe sft goes on to the bit, refuses to go on with another run, and keeps an earlier run until told otherwise."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from omegaconf import OmegaConf
from run_folders import Build, same_weights, weights_of

from torchpipe.errors import CheckpointError, ConfigError, SourceError


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
