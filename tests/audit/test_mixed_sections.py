"""explain, the plan and the names of rows, of every way to mix."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from torchpipe.audit.explain import explain_config
from torchpipe.audit.plan_json import to_dict
from torchpipe.audit.plan_report import plan_config
from torchpipe.audit.plan_text import to_text
from torchpipe.config import instantiate
from torchpipe.datasets import describe_mix, describe_rows, instantiate_dataset


@pytest.mark.parametrize("way", ["rows", "stored", "packs", "packed mix"])
def test_a_mix_is_explained_and_planned_as_it_is_trained_on(shared_data: Path, way: str) -> None:
    def section(first: int, last: int, **options: Any) -> dict[str, Any]:
        return {
            "_component_": "torchpipe.datasets.instruct_dataset",
            "source": "json",
            "data_files": str(shared_data / "gsm8k" / "train.jsonl"),
            "split": f"train[{first}:{last}]",
            "column_map": {"input": "question", "output": "answer"},
            **options,
        }

    options = {"rows": {}, "packs": {"packed": True}}.get(way, {"cache": True})
    mix: Any = [section(0, 6, weight=2, name="a", **options), section(6, 20, weight=1, name="b", **options)]
    if way == "packed mix":
        mix = {"_component_": "torchpipe.datasets.PackedDataset", "ds": mix}
    cfg = OmegaConf.create(
        {
            "tokenizer": {"_component_": "torchpipe.models.tiny.tiny_tokenizer", "max_seq_len": 512},
            "dataset": mix,
            "dataset_val": {"x": section(30, 34, packed=True), "y": section(34, 39, packed=True)},
            "batch_size": 2,
        }
    )
    dataset = instantiate_dataset(cfg.dataset, instantiate(cfg.tokenizer))
    report = plan_config(cfg, world_size=2)
    assert [one.section for one in report.sections] == ["dataset", "dataset_val.x", "dataset_val.y"]
    train = report.sections[0]
    assert train.num_items == len(dataset)
    assert train.mix == describe_mix(dataset) != ""
    assert train.mix in to_text(report)
    assert [section["mix"] for section in to_dict(report)["sections"]] == [train.mix, None, None]
    counts = getattr(dataset, "counts", train.counts)
    assert (train.num_documents, train.num_tokens) == (counts.rows, counts.tokens)
    assert len(explain_config(cfg).rows) == 1
    named = describe_rows(dataset, range(len(dataset)))
    assert "train[0:6]" in named
    assert "train[6:20]" in named
    assert named.startswith("pack 0 (row" if way.startswith("pack") else "item 0 (row")
