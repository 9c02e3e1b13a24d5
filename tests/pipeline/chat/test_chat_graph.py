"""Processors and collators in graphs, as a user writes them: gsm8k from a file, graphs in YAML, pictures packed."""

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from torchpipe.config import instantiate
from torchpipe.constants import IGNORE_INDEX
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.pipeline import (
    ChatProcessor,
    DatasetMixConfig,
    FirstFitPackingConfig,
    IndexedJsonlSource,
    MMSamplePackingConfig,
    MultiModalCollator,
    MultiModalProcessor,
    SingleDatasetConfig,
    TextCollator,
    TextSequence,
    WeightedDataset,
    from_renderers,
)
from torchpipe.pipeline.chat import first_sample
from torchpipe.vision import Patches

YAML = """
_component_: torchpipe.pipeline.FirstFitPackingConfig
num_packing_bins: 4
dataset:
  _component_: torchpipe.pipeline.SingleDatasetConfig
  source:
    _component_: torchpipe.pipeline.IndexedJsonlSource.Config
    patterns: ["{file}"]
  processor:
    _component_: torchpipe.pipeline.ChatProcessor.Config
    messages_fn: torchpipe.data.openai_dicts.from_openai
    renderer:
      _component_: torchpipe.pipeline.RenderersLibraryConfig
      renderers_config: {{name: qwen3, enable_thinking: false}}
"""


def read_gsm8k(row: dict[str, str]) -> list[dict[str, str]]:
    return [{"role": "user", "content": row["question"]}, {"role": "assistant", "content": row["answer"]}]


@pytest.fixture
def gsm8k(shared_data: Path, tmp_path: Path) -> str:
    """The first 60 rows, as a file."""
    lines = (shared_data / "gsm8k" / "train.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    file = tmp_path / "gsm8k.jsonl"
    file.write_text("".join(lines[:60]), encoding="utf-8")
    return str(file)


def test_gsm8k_packed_trains_each_answer_once(gsm8k: str, titan: Any, grain_of: Any, graph_rows: Any) -> None:
    tokenizer = titan()
    numbers = {"tokenizer": tokenizer, "max_context_length": 512, "num_tokens_per_batch": 1024}
    graph = FirstFitPackingConfig(
        dataset=SingleDatasetConfig(
            source=IndexedJsonlSource.Config(patterns=(gsm8k,)),
            processor=ChatProcessor.Config(messages_fn=read_gsm8k),
        )
    )
    rows = graph_rows(grain_of(graph, context=numbers, shuffle=True))
    trained: list[str] = []
    for row in rows:
        starts = np.flatnonzero(row.positions == 0)[1:]
        parts = zip(np.split(row.labels, starts), np.split(row.padding_mask, starts), strict=True)
        trained += [
            tokenizer.decode(labels[labels != IGNORE_INDEX].tolist()) for labels, padding in parts if not padding.all()
        ]
    with open(gsm8k, encoding="utf-8") as file:
        answers = [json.loads(line)["answer"] + tokenizer.eos_token for line in file]
    assert sorted(trained) == sorted(answers)


def test_a_graph_with_a_renderer_is_the_same_from_yaml(gsm8k: str) -> None:
    import yaml

    graph = instantiate(yaml.safe_load(YAML.format(file=gsm8k)))
    assert graph == FirstFitPackingConfig(
        num_packing_bins=4,
        dataset=SingleDatasetConfig(
            source=IndexedJsonlSource.Config(patterns=(gsm8k,)),
            processor=ChatProcessor.Config(
                messages_fn="torchpipe.data.openai_dicts.from_openai",  # pyright: ignore[reportArgumentType]
                renderer=from_renderers({"name": "qwen3", "enable_thinking": False}),
            ),
        ),
    )


def test_pictures_stay_with_their_tokens_when_samples_are_packed(
    qwen3: Any, context_of: Callable[..., Any], grain_of: Any, graph_rows: Any
) -> None:
    tokenizer = qwen3()
    start, end, part = (
        tokenizer.special_tokens[text] for text in ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>")
    )
    samples = []
    for number in range(12):
        tokens = [start, *[part] * (1 + number % 3), end, *tokenizer.encode(f"picture {number}", add_bos=False)]
        picture = Patches(
            values=torch.full((4 * (1 + number % 3), 6), float(number)), grid_thw=(1, 2, 2 + 2 * (number % 3))
        )
        samples.append({"input_ids": tokens[:-1], "labels": tokens[1:], "pixel_values": [picture]})
    graph = MMSamplePackingConfig(
        dataset=SingleDatasetConfig(source=samples, processor=MultiModalProcessor.Config()), max_images_per_row=3
    )
    numbers = {"tokenizer": tokenizer, "max_context_length": 32, "num_tokens_per_batch": 40}
    collate = MultiModalCollator.Config(build_mrope_positions=True, max_images_per_batch=3).build(
        context=context_of(**numbers)
    )
    seen: list[float] = []
    for row in graph_rows(grain_of(graph, context=numbers)):
        batch, labels = collate([row])
        assert len(batch["grid_thw"]) <= 3
        assert int((batch["input"] == part).sum()) * 4 == len(batch["pixel_values"])
        assert not set(labels.tolist()) & {start, end, part}
        seen += batch["pixel_values"][:, 0].unique_consecutive().tolist()
        text = tokenizer.decode(batch["input"][~batch["padding_mask"]].tolist(), truncate_at_eos=False)
        assert [f"picture {int(number)}" in text for number in batch["pixel_values"][:, 0].unique()] == [True] * len(
            batch["grid_thw"]
        )
    assert sorted(seen) == list(range(12))


def test_a_batch_without_rows_has_what_one_with_rows_has(context_of: Callable[..., Any], titan: Any) -> None:
    context = context_of(titan(), max_num_documents=4)
    row = TextSequence(input_ids=np.arange(5), labels=np.arange(5))
    for config in (TextCollator.Config(), MultiModalCollator.Config(build_mrope_positions=True)):
        collate = config.build(context=context)
        (empty, _), (full, _) = collate([]), collate([row])
        assert empty.keys() == full.keys()
        assert empty["cu_seqlens"].shape == full["cu_seqlens"].shape
        assert (empty["num_valid_tokens"], full["num_valid_tokens"]) == (0, 5)


@pytest.mark.parametrize("planned", [True, False])
def test_the_first_sample_of_a_config_is_printed_once_over_loaders_parts_and_workers(
    planned: bool, gsm8k: str, loader: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_sample, "_notes", first_sample.Notes())

    def graph() -> DatasetMixConfig:
        children = [
            SingleDatasetConfig(
                source=IndexedJsonlSource.Config(patterns=(gsm8k,)),
                processor=ChatProcessor.Config(messages_fn=read_gsm8k, masking_strategy=strategy),
                name=strategy,
            )
            for strategy in ("train_on_assistant", "train_on_last")
        ]
        return DatasetMixConfig(datasets=[WeightedDataset(dataset=child) for child in children])

    options = {"planned": planned, "repeat": True, "tokenizer": tiny_tokenizer(), "length": 1024}
    if not planned:
        options["num_logical_shards"] = 4
    for num_workers in (2, 0, 2):
        list(islice(iter(loader(graph(), num_workers=num_workers, **options)), 9))
    assert capfd.readouterr().err.count("ChatProcessor: the first sample has") == 2
