"""Graphs as users of torchtitan write them, over real data: in Python, and the same in YAML."""

import json
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest
import torch
from real_rows import TOKENIZER, TOKENS, from_yaml, inputs, loader_of, pages

from torchpipe.config import instantiate
from torchpipe.errors import ConfigError
from torchpipe.pipeline import (
    ChatProcessor,
    ConcatThenSplitPackingConfig,
    DatasetBuildContext,
    DatasetConcatConfig,
    DatasetIterationPolicy,
    DatasetMixConfig,
    FirstFitPackingConfig,
    GrainDataLoader,
    HuggingFaceRandomAccessSource,
    HuggingFaceStreamingSource,
    IndexedJsonlSource,
    RenderersLibraryConfig,
    SingleDatasetConfig,
    TextCollator,
    TextProcessor,
    WeightedDataset,
)


def test_jsonl_text_in_rows_without_gaps(c4: SingleDatasetConfig, shared_data: Path) -> None:
    graph = ConcatThenSplitPackingConfig(dataset=c4)
    rows = inputs(loader_of(graph, repeat=False, shuffle=False))
    text = [token for page in pages(shared_data) for token in page[:-1]]
    assert rows == [text[begin : begin + TOKENS] for begin in range(0, len(text) - TOKENS + 1, TOKENS)]
    written = """
        _component_: torchpipe.pipeline.ConcatThenSplitPackingConfig
        dataset:
          _component_: torchpipe.pipeline.SingleDatasetConfig
          source:
            _component_: torchpipe.pipeline.IndexedJsonlSource.Config
            patterns: ['{data}/llamafactory/c4_demo.jsonl']
          processor:
            _component_: torchpipe.pipeline.TextProcessor.Config
    """
    assert from_yaml(written, data=shared_data) == graph


@pytest.mark.parametrize("kind", [HuggingFaceRandomAccessSource, HuggingFaceStreamingSource])
def test_hugging_face_random_access_and_streaming(kind: Any, c4: SingleDatasetConfig, shared_data: Path) -> None:
    files = {"data_files": str(shared_data / "llamafactory" / "c4_demo.jsonl")}
    source = kind.Config(path="json", split="train", load_dataset_kwargs=files)
    graph = ConcatThenSplitPackingConfig(
        dataset=SingleDatasetConfig(
            source=source,
            processor=TextProcessor.Config(),
            post_filters=(lambda sample: sample is not None,),
        )
    )
    of_jsonl = inputs(loader_of(ConcatThenSplitPackingConfig(dataset=c4), repeat=False, shuffle=False))
    assert inputs(loader_of(graph, repeat=False, shuffle=False)) == of_jsonl
    written = f"""
        _component_: torchpipe.pipeline.{kind.__name__}.Config
        path: json
        split: train
        load_dataset_kwargs: {{{{data_files: '{{file}}'}}}}
    """
    assert from_yaml(written, file=files["data_files"]) == source


def test_a_class_that_is_named_in_place_of_its_config_is_told() -> None:
    with pytest.raises(ConfigError, match=r"Its Config takes these arguments: add '\.Config' to the name"):
        instantiate({"_component_": "torchpipe.pipeline.IndexedJsonlSource", "patterns": ["a"]})


def test_gsm8k_chat_is_packed_whole(gsm8k: SingleDatasetConfig, users: Any, shared_data: Path) -> None:
    loader = loader_of(FirstFitPackingConfig(dataset=gsm8k, num_packing_bins=64), repeat=False)
    batches = list(loader)
    documents = sum(int(((batch["positions"] == 0) & ~batch["padding_mask"]).sum()) for batch, _ in batches)
    assert documents == loader.ledger[next(name for name in loader.ledger if name.startswith("Single"))]["rows_out"]
    answers = [TOKENIZER.decode(labels[labels != -100].tolist()) for _, labels in batches]
    assert any("#### 72" in answer for answer in answers)
    assert not any("Natalia sold clips to 48 of her friends" in answer for answer in answers)
    written = """
        _component_: torchpipe.pipeline.ChatProcessor.Config
        messages_fn: users_components.question_and_answer
    """
    assert from_yaml(written) == gsm8k.processor


def test_multi_turn_conversations_with_a_renderer(shared_data: Path, users: Any, titan: Callable[..., Any]) -> None:
    written = """
        _component_: torchpipe.pipeline.SingleDatasetConfig
        source:
          _component_: torchpipe.pipeline.IndexedJsonlSource.Config
          patterns: ['{data}/messages/tinker_conversations.jsonl']
        processor:
          _component_: torchpipe.pipeline.ChatProcessor.Config
          messages_fn: users_components.messages_of
          renderer: {{_component_: torchpipe.pipeline.RenderersLibraryConfig, renderers_config: deepseek-v3}}
    """
    single = SingleDatasetConfig(
        source=IndexedJsonlSource.Config(patterns=(str(shared_data / "messages" / "tinker_conversations.jsonl"),)),
        processor=ChatProcessor.Config(
            messages_fn=users.messages_of,
            renderer=RenderersLibraryConfig(renderers_config="deepseek-v3"),
        ),
    )
    assert from_yaml(written, data=shared_data) == single
    tokenizer = titan()
    batch, labels = next(iter(loader_of(FirstFitPackingConfig(dataset=single), tokenizer=tokenizer, shuffle=False)))
    trained = tokenizer.decode(labels[labels != -100].tolist())
    assert "Paris" in trained
    assert "What is" not in trained
    assert "What is the capital of France?" in tokenizer.decode(batch["input"].tolist())


@pytest.mark.parametrize("packed", ["before", "after"])
def test_a_mix_by_tokens_before_and_after_packing(
    packed: str, c4: SingleDatasetConfig, gsm8k: SingleDatasetConfig
) -> None:
    text: Any = ConcatThenSplitPackingConfig(dataset=c4) if packed == "before" else c4
    chat: Any = FirstFitPackingConfig(dataset=gsm8k) if packed == "before" else gsm8k
    mix: Any = DatasetMixConfig(
        datasets=(
            WeightedDataset(dataset=text, weight=0.7, name="text"),
            WeightedDataset(dataset=chat, weight=0.3, name="chat"),
        ),
        by="tokens",
    )
    graph = mix if packed == "before" else ConcatThenSplitPackingConfig(dataset=mix)
    loader = loader_of(graph, repeat=False)
    assert len(inputs(loader)) == loader.num_rows > 100
    served = {name: share["served"] for name, share in loader.ledger["DatasetMixConfig"].items()}
    assert served == pytest.approx({"text": 0.7, "chat": 0.3}, abs=0.01)


def test_a_concat_with_a_child_three_times(c4: SingleDatasetConfig, shared_data: Path) -> None:
    graph = DatasetConcatConfig(datasets=(c4, c4, c4))
    rows = loader_of(ConcatThenSplitPackingConfig(dataset=graph, last_row="pad"), repeat=False)
    tokens = Counter(token for batch, _ in rows for token in batch["input"][~batch["padding_mask"]].tolist())
    once = Counter(token for page in pages(shared_data) for token in page[:-1])
    assert tokens == Counter({token: 3 * number for token, number in once.items()})


def test_the_full_loader_config(c4: SingleDatasetConfig, shared_data: Path) -> None:
    config = GrainDataLoader.Config(
        dataset=ConcatThenSplitPackingConfig(dataset=c4),
        collator=TextCollator.Config(),
        seed=42,
        shuffle=True,
        repeat=True,
        streaming_shuffle_buffer_size=1_000,
        read_options=grain.ReadOptions(num_threads=2, prefetch_buffer_size=4),
        num_prefetch_batches=2,
    )
    loader = config.build(
        dp_world_size=2, dp_rank=1, tokenizer=TOKENIZER, max_context_length=TOKENS, num_tokens_per_batch=2 * TOKENS
    )
    batch, labels = next(iter(loader))
    loader.close()
    assert batch.keys() == {"input", "positions", "padding_mask", "num_valid_tokens"}
    assert (batch["input"].shape, labels.shape, batch["input"].dtype) == ((1024,), (1024,), torch.int64)
    assert int(batch["positions"].max()) < TOKENS
    written = """
        _component_: torchpipe.pipeline.GrainDataLoader.Config
        dataset:
          _component_: torchpipe.pipeline.ConcatThenSplitPackingConfig
          dataset:
            _component_: torchpipe.pipeline.SingleDatasetConfig
            source:
              _component_: torchpipe.pipeline.IndexedJsonlSource.Config
              patterns: ['{data}/llamafactory/c4_demo.jsonl']
            processor: {{_component_: torchpipe.pipeline.TextProcessor.Config}}
        collator: {{_component_: torchpipe.pipeline.TextCollator.Config}}
        seed: 42
        shuffle: true
        repeat: true
        streaming_shuffle_buffer_size: 1000
        read_options: {{_component_: grain.ReadOptions, num_threads: 2, prefetch_buffer_size: 4}}
        num_prefetch_batches: 2
    """
    assert from_yaml(written, data=shared_data) == config


def test_a_data_set_of_grain_as_a_source(shared_data: Path) -> None:
    rows = [{"text": line} for line in (shared_data / "gsm8k" / "train.jsonl").read_text().splitlines()[:200]]
    rows_of_grain = grain.MapDataset.source(rows)
    read = []
    for source in (rows, rows_of_grain.to_iter_dataset()):
        graph = ConcatThenSplitPackingConfig(
            dataset=SingleDatasetConfig(source=source, processor=TextProcessor.Config())
        )
        read.append(inputs(loader_of(graph, repeat=False, shuffle=False)))
    assert read[0] == read[1]


def test_a_config_is_built_without_a_loader(c4: SingleDatasetConfig, gsm8k: SingleDatasetConfig) -> None:
    context = DatasetBuildContext(tokenizer=TOKENIZER, max_context_length=TOKENS, num_tokens_per_batch=TOKENS)
    policy = DatasetIterationPolicy(
        seed=1, shuffle=True, repeat=True, dp_rank=0, dp_world_size=1, streaming_shuffle_buffer_size=10
    )
    rows: Any = c4.build(context=context, dataset_iteration_policy=policy)
    assert issubclass(type(rows), grain.MapDataset)
    epochs = [[len(rows[index].input_ids) for index in range(begin, begin + 150)] for begin in (0, 150)]
    assert sorted(epochs[0]) == sorted(epochs[1]) != epochs[1] != epochs[0]
    for built in (
        rows.to_iter_dataset(),
        FirstFitPackingConfig(dataset=gsm8k).build(context=context, dataset_iteration_policy=policy),
    ):
        iterator: Any = iter(built)
        list(islice(iterator, 5))
        state = json.loads(json.dumps(iterator.get_state()))
        expected: Any = next(iterator)
        iterator.set_state(state)
        assert np.array_equal(next(iterator).input_ids, expected.input_ids)
