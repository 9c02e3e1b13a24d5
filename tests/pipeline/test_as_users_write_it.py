"""Graphs as users of torchtitan write them, over real data: in Python, and the same in YAML."""

import importlib
import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest
import torch
import yaml
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from torchpipe.config import instantiate
from torchpipe.errors import ConfigError
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.pipeline import (
    BaseDataLoader,
    ChatProcessor,
    Collator,
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
    SampleProcessor,
    SingleDatasetConfig,
    TextCollator,
    TextProcessor,
    WeightedDataset,
)

TOKENIZER = tiny_tokenizer(max_seq_len=512)
TOKENS = 512


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The user's own module, found as a script finds those beside it."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    return importlib.import_module("users_components")


@pytest.fixture
def c4(shared_data: Path) -> SingleDatasetConfig:
    """150 pages of text."""
    return SingleDatasetConfig(
        source=IndexedJsonlSource.Config(patterns=(str(shared_data / "llamafactory" / "c4_demo.jsonl"),)),
        processor=TextProcessor.Config(),
    )


@pytest.fixture
def gsm8k(shared_data: Path, users: Any, tmp_path: Path) -> SingleDatasetConfig:
    """The first 400 rows as conversations."""
    rows = (shared_data / "gsm8k" / "train.jsonl").read_text(encoding="utf-8").splitlines()[:400]
    (tmp_path / "gsm8k.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return SingleDatasetConfig(
        source=IndexedJsonlSource.Config(patterns=(str(tmp_path / "*.jsonl"),)),
        processor=ChatProcessor.Config(messages_fn=users.question_and_answer),
    )


def loader_of(dataset: Any, *, tokenizer: Any = TOKENIZER, rank: int = 0, ranks: int = 1, **config: Any) -> Any:
    return GrainDataLoader.Config(dataset=dataset, num_proc=1, **config).build(
        dp_world_size=ranks,
        dp_rank=rank,
        tokenizer=tokenizer,
        max_context_length=TOKENS,
        num_tokens_per_batch=TOKENS,
    )


def inputs(loader: Any, number: int | None = None) -> list[list[int]]:
    batches = list(islice(loader, number))
    loader.close()
    return [batch["input"].tolist() for batch, _ in batches]


def from_yaml(text: str, **paths: Any) -> Any:
    return instantiate(yaml.safe_load(text.format(**paths)))


def pages(shared_data: Path, tokenizer: Any = TOKENIZER) -> list[list[int]]:
    lines = (shared_data / "llamafactory" / "c4_demo.jsonl").read_text(encoding="utf-8").splitlines()
    return [tokenizer.encode(json.loads(line)["text"], add_bos=True, add_eos=True) for line in lines]


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


def test_a_memory_mapped_source_and_a_processor_of_ones_own(
    users: Any, c4: SingleDatasetConfig, shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = users.write_tokens(tmp_path, pages(shared_data))
    single = SingleDatasetConfig(
        source=users.PretokenizedMemmapSource.Config(**paths), processor=users.TokensToTextSequence.Config()
    )
    graph = ConcatThenSplitPackingConfig(dataset=single)
    of_text = inputs(loader_of(ConcatThenSplitPackingConfig(dataset=c4), repeat=False, shuffle=False))
    assert inputs(loader_of(graph, repeat=False, shuffle=False, planned=True)) == of_text
    written = """
        _component_: torchpipe.pipeline.SingleDatasetConfig
        source: {{_component_: users_components.PretokenizedMemmapSource.Config,
          tokens_path: '{tokens_path}', offsets_path: '{offsets_path}', dtype: {dtype}}}
        processor: {{_component_: users_components.TokensToTextSequence.Config}}
    """
    assert from_yaml(written, **paths) == single


def test_components_written_with_numpy_are_tokenised_once(users: Any, shared_data: Path, tmp_path: Path) -> None:
    paths = users.write_tokens(tmp_path, pages(shared_data)[:20])
    graph = SingleDatasetConfig(
        source=users.PretokenizedMemmapSource.Config(**paths), processor=users.TokensToTextSequence.Config()
    )
    # A warning, which is an error here, would say that the rows are tokenised for this run alone.
    states = [loader_of(graph, cache_dir=str(tmp_path / "stores")).state_dict() for _ in range(2)]
    assert states[0] == states[1]
    assert len(list((tmp_path / "stores").rglob("manifest.json"))) == 1


def test_a_class_that_is_named_in_place_of_its_config_is_told() -> None:
    with pytest.raises(ConfigError, match=r"Its Config takes these arguments: add '\.Config' to the name"):
        instantiate({"_component_": "torchpipe.pipeline.IndexedJsonlSource", "patterns": ["a"]})


@pytest.mark.parametrize("base", [SampleProcessor, Collator, BaseDataLoader, TextProcessor, TextCollator])
@pytest.mark.parametrize("frozen", [False, True])
def test_settings_of_ones_own_may_be_a_changeable_dataclass_and_abstract_ones_also_frozen(
    base: Any, frozen: bool
) -> None:
    def subclass() -> Any:
        class Own(base):
            @dataclass(kw_only=True, slots=True, frozen=frozen)
            class Config(base.Config):
                size: int = 3

        return Own

    if frozen and base in (TextProcessor, TextCollator):
        with pytest.raises(TypeError, match="cannot inherit frozen dataclass from a non-frozen one"):
            subclass()
        return
    config = subclass().Config()
    if not frozen:
        config.size = 5
    assert config.to_dict()["size"] == (3 if frozen else 5)


def test_gsm8k_chat_is_packed_whole(gsm8k: SingleDatasetConfig, users: Any, shared_data: Path) -> None:
    loader = loader_of(FirstFitPackingConfig(dataset=gsm8k, num_packing_bins=64), repeat=False)
    batches = list(loader)
    documents = sum(int(((batch["positions"] == 0) & ~batch["padding_mask"]).sum()) for batch, _ in batches)
    assert documents == loader.ledger[next(name for name in loader.ledger if name.startswith("Single"))]["stored"]
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


@pytest.fixture
def cropped(users: Any, c4: SingleDatasetConfig) -> ConcatThenSplitPackingConfig:
    """A random part of each page."""
    return ConcatThenSplitPackingConfig(
        dataset=SingleDatasetConfig(source=c4.source, processor=users.RandomCrop.Config(num_tokens=64))
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


def test_collators_of_ones_own(users: Any, c4: SingleDatasetConfig) -> None:
    graph = ConcatThenSplitPackingConfig(dataset=c4)
    plain = inputs(loader_of(graph, repeat=False))
    batch, labels = next(iter(loader_of(graph, repeat=False, collator=users.BatchedCollator.Config())))
    assert (batch["input"].shape, labels.shape) == ((1, TOKENS), (1, TOKENS))
    pairs = loader_of(graph, repeat=False, collator=users.PairCollator.Config())
    rows = [row for batch, _ in pairs for row in batch["input"].tolist()]
    assert rows[: len(plain)] == plain
    flat = users.BatchedCollator.Config()
    flat.batch_dim = False  # the config may be changed, as a source's may
    assert inputs(loader_of(graph, repeat=False, collator=flat), 1) == plain[:1]


def test_a_collator_that_needs_rows_is_given_one_of_padding_where_a_rank_has_none(
    users: Any, c4: SingleDatasetConfig
) -> None:
    graph = ConcatThenSplitPackingConfig(dataset=c4)
    config = users.StackingCollator.Config()
    by_rank = [list(loader_of(graph, rank=rank, ranks=4, repeat=False, collator=config)) for rank in range(4)]
    rows = [batch["input"][0].tolist() for turn in zip(*by_rank, strict=True) for batch, _ in turn]
    plain = inputs(loader_of(graph, repeat=False))
    assert rows[: len(plain)] == plain
    assert len(rows) > len(plain)
    assert all((labels == -100).all() for _, labels in [batches[-1] for batches in by_rank][len(plain) % 4 :])


def test_a_collator_without_a_batch_of_padding_is_told_what_is_missing(users: Any, c4: SingleDatasetConfig) -> None:
    graph = DatasetConcatConfig(datasets=(c4,))
    config = users.StackingCollator.Config(longest=3)
    with pytest.raises(ValueError, match="longer than 3") as told:
        list(loader_of(graph, rank=3, ranks=151, repeat=False, collator=config))
    assert not any("padding" in note for note in getattr(told.value, "__notes__", ()))
    with pytest.raises(ValueError, match="longer than 3") as told:
        list(loader_of(graph, rank=150, ranks=151, repeat=False, collator=config))
    assert any("define its method padding()" in note for note in getattr(told.value, "__notes__", ()))


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


def test_importing_grain_leaves_the_programs_logging_alone(run_code: Callable[..., str]) -> None:
    code = (
        "import contextlib, io, logging, sys\n"
        "said = io.StringIO()\n"
        "with contextlib.redirect_stderr(said):\n"
        "    from torchpipe.pipeline import HuggingFaceStreamingSource\n"
        "assert 'grain' in sys.modules and 'jax' not in sys.modules\n"
        "print(said.getvalue(), logging.root.handlers, logging.getLogger('absl').filters)\n"
    )
    assert run_code(code) == " [] []\n"


def test_no_module_imports_grain_by_itself(repository: Path) -> None:
    files = [file for file in (repository / "torchpipe").rglob("*.py") if file.name != "grain_import.py"]
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    assert [file.name for file, text in texts.items() if "\nimport grain" in text or "\nfrom grain" in text] == []
    assert sys.modules["grain"] is grain
