"""Recipe sft says no in one sentence, before a model is built."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from run_folders import Build

from torchpipe.errors import ConfigError, DataError, SourceError

PAIRS = {
    "_component_": "torchpipe.datasets.preference_dataset",
    "source": str(Path(__file__).parents[2] / "torchpipe" / "assets" / "sample_pairs.json"),
}


def test_a_refused_run_leaves_no_output_folder(sft: ModuleType, tiny_config: Build) -> None:
    cfg = tiny_config(data_file="gone.json")
    with pytest.raises(SourceError):
        sft.main(cfg)
    assert not Path(cfg.output_dir).exists()


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
