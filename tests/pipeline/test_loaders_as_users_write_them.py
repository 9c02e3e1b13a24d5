"""Loaders of real rows: over ranks, at other lengths, saved and resumed."""

import json
from pathlib import Path
from typing import Any

import pytest
from real_rows import TOKENIZER, inputs, loader_of
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from torchpipe.pipeline import (
    ConcatThenSplitPackingConfig,
    FirstFitPackingConfig,
    GrainDataLoader,
    SingleDatasetConfig,
)


def test_a_random_crop_is_run_by_grain(cropped: Any, capsys: pytest.CaptureFixture[str]) -> None:
    loader = loader_of(cropped)
    assert not loader.is_planned
    assert "Grain runs this graph, as rows come: RandomCrop draws random numbers (integers)." in capsys.readouterr().err
    rows = inputs(loader, 40)
    assert len({tuple(row) for row in rows}) == 40  # 150 pages are 18 rows an epoch, cropped anew in each
    assert rows == inputs(loader_of(cropped), 40)


def test_a_finite_pass_over_three_ranks(gsm8k: SingleDatasetConfig) -> None:
    graph = FirstFitPackingConfig(dataset=gsm8k)
    by_rank = [list(loader_of(graph, rank=rank, ranks=3, repeat=False)) for rank in range(3)]
    assert len({len(batches) for batches in by_rank}) == 1
    trained = sum(batch["num_valid_tokens"] for batches in by_rank for batch, _ in batches)
    assert trained == sum(batch["num_valid_tokens"] for batch, _ in loader_of(graph, repeat=False))


@pytest.mark.parametrize("way", ["planned", "grain"])
def test_resume_after_json(way: str, gsm8k: SingleDatasetConfig, cropped: Any) -> None:
    graph = FirstFitPackingConfig(dataset=gsm8k) if way == "planned" else cropped
    loader = loader_of(graph)
    inputs(loader, 7)
    text = json.dumps(loader.state_dict())
    rest = inputs(loader, 5)
    resumed = loader_of(graph)
    resumed.load_state_dict(json.loads(text))
    assert inputs(resumed, 5) == rest
    assert len(text) < 1024


def test_other_lengths_need_no_tokens_made_anew(c4: SingleDatasetConfig, tmp_path: Path) -> None:
    for length in (512, 256):
        config = GrainDataLoader.Config(
            dataset=ConcatThenSplitPackingConfig(dataset=c4), num_proc=1, cache_dir=str(tmp_path / "stores")
        )
        config.build(tokenizer=TOKENIZER, max_context_length=length, num_tokens_per_batch=2 * length)
    assert len(list((tmp_path / "stores").rglob("manifest.json"))) == 1


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
@pytest.mark.parametrize("way", ["planned", "grain"])
def test_a_distributed_checkpoint_of_the_loader(
    way: str, gsm8k: SingleDatasetConfig, cropped: Any, tmp_path: Path
) -> None:
    graph = FirstFitPackingConfig(dataset=gsm8k) if way == "planned" else cropped
    loader, resumed = loader_of(graph), loader_of(graph)
    inputs(loader, 3)
    save({"dataloader": loader}, checkpoint_id=tmp_path / "step")
    load({"dataloader": resumed}, checkpoint_id=tmp_path / "step")
    assert inputs(resumed, 4) == inputs(loader, 4)
