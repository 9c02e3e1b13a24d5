"""Sources, processors, collators and settings of one's own, written as torchtitan's users write them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from real_rows import TOKENS, from_yaml, inputs, loader_of, pages

from torchpipe.pipeline import (
    BaseDataLoader,
    Collator,
    ConcatThenSplitPackingConfig,
    DatasetConcatConfig,
    SampleProcessor,
    SingleDatasetConfig,
    TextCollator,
    TextProcessor,
)


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
