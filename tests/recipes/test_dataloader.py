"""Recipe sft over a graph in place of a data set."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from omegaconf import DictConfig
from run_folders import weights_of

from torchpipe.errors import ConfigError, LoaderStateError

pytestmark = pytest.mark.filterwarnings("ignore:.*are dropped, in documents that are too long")


def test_it_learns_and_says_what_it_trains_on(
    sft: ModuleType, graph_config: Callable[..., DictConfig], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sft.main(graph_config(max_steps=30, optimizer__lr=0.01))
    printed = capsys.readouterr().out
    assert "training rows: 42 rows," in printed
    assert "steps: 30; 1 row a step and 0 of padding = world size 1 x accumulation 1 x rows a batch 1" in printed
    line = next(line for line in printed.splitlines() if line.startswith("training loss: "))
    before, after = (float(word) for word in line.split() if word.replace(".", "").isdigit())
    assert after < before - 1


def test_a_run_that_is_stopped_and_resumed_has_the_weights_of_one_that_was_not(
    sft: ModuleType, graph_config: Callable[..., DictConfig], tmp_path: Path
) -> None:
    more = {"gradient_accumulation_steps": 3}
    sft.main(graph_config(output_dir=str(tmp_path / "whole"), **more))
    sft.main(graph_config(max_steps=2, **more))
    sft.main(graph_config(resume=True, dataloader__num_workers=1, **more))
    expected, got = weights_of(tmp_path / "whole"), weights_of(tmp_path / "out")
    assert all(torch.equal(got[name], expected[name]) for name in expected)


def test_a_run_is_not_resumed_with_other_rows(
    sft: ModuleType, graph_config: Callable[..., DictConfig], tmp_path: Path
) -> None:
    sft.main(graph_config(max_steps=2))
    other = graph_config(resume=True)
    other.dataloader.dataset.dataset.datasets[0].weight = 1
    with pytest.raises(LoaderStateError, match="DatasetMixConfig was mixes"):
        sft.main(other)


def test_one_pass_has_as_many_steps_as_it_takes(
    sft: ModuleType, graph_config: Callable[..., DictConfig], capsys: pytest.CaptureFixture[str]
) -> None:
    sft.main(graph_config(max_steps=None, dataloader__repeat=False, gradient_accumulation_steps=4))
    printed = capsys.readouterr().out
    known = int(printed.partition("steps: ")[2].partition(";")[0])
    assert f"step {known}/{known}" in printed


def test_a_processor_that_draws_random_numbers_is_trained_on_as_rows_come(
    sft: ModuleType,
    graph_config: Callable[..., DictConfig],
    random_graph: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = graph_config(dataloader__dataset=None, max_steps=4)
    config.dataloader.dataset = random_graph
    whole = config.copy()
    whole.output_dir = str(tmp_path / "whole")
    sft.main(whole)
    assert "Grain runs this graph, as rows come: RandomIds draws random numbers" in capsys.readouterr().err
    first = config.copy()
    first.max_steps = 2
    sft.main(first)
    config.resume = True
    sft.main(config)
    expected, got = weights_of(tmp_path / "whole"), weights_of(tmp_path / "out")
    assert all(torch.equal(got[name], expected[name]) for name in expected)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"dataset": {"_component_": "torchpipe.datasets.chat_dataset"}}, "Give one of the two sections"),
        ({"dataloader": None}, "Give one of the two sections"),
        ({"dataloader": {"shuffle": True}}, "Of torchtune's section the keys stand at the top here"),
        ({"epochs": 2}, "epochs has no effect beside dataloader"),
        ({"batch_size": 2}, "batch_size has no effect beside dataloader"),
        ({"max_steps": None}, "The run has no end"),
    ],
)
def test_settings_that_do_not_go_with_a_graph_are_refused(
    sft: ModuleType, graph_config: Callable[..., DictConfig], settings: dict[str, Any], sentence: str
) -> None:
    config = graph_config()
    for key, value in settings.items():
        config[key] = value
    with pytest.raises(ConfigError, match=sentence):
        sft.main(config)
