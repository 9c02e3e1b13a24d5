"""What a start does, it does once: sources are opened, tokenizers asked and epochs planned no second time."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import tokenizers
from numbered_graphs import Loader, equal, planned, single, stream

from torchpipe._fingerprint import fingerprint
from torchpipe._fingerprint_memory import remembering
from torchpipe.pipeline import (
    DatasetBuildContext,
    DatasetConcatConfig,
    DatasetMixConfig,
    FirstFitPackingConfig,
    FirstRows,
    SampleProcessor,
    SingleDatasetConfig,
    TextSequence,
    WeightedDataset,
)
from torchpipe.pipeline.planned import packing

NAMES = ("a", "b", "c", "d")


class Asked:
    """A tokenizer that counts how often it was asked what it is."""

    def __init__(self) -> None:
        self.times = 0

    def fingerprint(self) -> str:
        self.times += 1
        return "one token a number"


class Numbering(SampleProcessor):
    """A number to so many tokens; it holds the tokenizer, as those that encode do."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(SampleProcessor.Config):
        """adds: a token that the processor adds to the tokenizer."""

        adds: str | None = None

    def __init__(self, config: Config, *, context: DatasetBuildContext) -> None:
        self.tokenizer = context.tokenizer
        if config.adds is not None:
            self.tokenizer.add_tokens([config.adds])

    def __call__(self, sample: int, rng: np.random.Generator) -> TextSequence:
        ids = np.arange(sample + 2)
        return TextSequence(input_ids=ids[:-1], labels=ids[1:])


@dataclass
class Counted:
    """A source that counts how often it was opened."""

    first: int
    opened: list[int] = field(default_factory=list)

    def build(self, *, dataset_iteration_policy: Any) -> range:
        self.opened.append(self.first)
        return range(self.first, self.first + 5)


def mixed(sources: list[Any], *, adds: str | None = None) -> FirstFitPackingConfig:
    """A graph of four sources; the processor of the last one may add a token."""
    processors = [Numbering.Config(adds=adds if name == NAMES[-1] else None) for name in NAMES]
    children = [
        WeightedDataset(dataset=SingleDatasetConfig(source=source, processor=processor), name=name)
        for name, source, processor in zip(NAMES, sources, processors, strict=True)
    ]
    return FirstFitPackingConfig(dataset=DatasetMixConfig(datasets=children))


def words() -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer(tokenizers.models.WordLevel({"one": 0, "two": 1}, unk_token="one"))


def test_a_tokenizer_is_asked_once_however_many_sources_there_are(loader: Loader) -> None:
    tokenizer = Asked()
    for starts in (1, 2):
        loader(mixed([range(3 * one, 3 * one + 3) for one in range(4)]), tokenizer=tokenizer)
        assert tokenizer.times == starts


def test_a_tokenizer_that_was_changed_between_two_starts_is_another_one(loader: Loader) -> None:
    tokenizer, graph = words(), mixed([range(3)] * 4)
    states = [loader(graph, tokenizer=tokenizer).state_dict() for _ in range(2)]
    tokenizer.add_tokens(["three"])
    assert states[0] == states[1] != loader(graph, tokenizer=tokenizer).state_dict()


def test_a_token_that_a_processor_adds_when_it_is_built_counts_for_all_sources(loader: Loader) -> None:
    def identity(adds: str | None) -> Any:
        return loader(mixed([range(3)] * 4, adds=adds), tokenizer=words()).state_dict()["graph"]

    changed = words()
    changed.add_tokens(["three"])
    assert identity("three") == loader(mixed([range(3)] * 4, adds="three"), tokenizer=changed).state_dict()["graph"]
    assert identity("three") != identity(None)


def test_nothing_is_remembered_behind_the_stretch() -> None:
    tokenizer = words()
    with remembering():
        before = fingerprint([tokenizer])
    tokenizer.add_tokens(["three"])
    with remembering():
        assert fingerprint([tokenizer]) != before


def test_the_first_rows_are_read_of_the_graph_that_the_loader_has_opened(loader: Loader) -> None:
    sources = [Counted(10 * one) for one in range(4)]
    rows = loader(mixed(sources), tokenizer=Asked(), repeat=True)
    shown = FirstRows(rows, 2)
    assert [source.opened for source in sources] == [[0], [10], [20], [30]]
    assert shown[0]["tokens"].equal(next(iter(rows))[0]["input"])


def test_another_loader_of_the_graph_begins_with_its_first_row(loader: Loader) -> None:
    rows = loader(FirstFitPackingConfig(dataset=single(60)))
    whole = list(rows)
    assert equal(list(rows.anew()), whole)
    two = [loader(FirstFitPackingConfig(dataset=single(60)), rank=rank, world_size=2) for rank in range(2)]
    next(iter(two[1]))
    assert equal(list(two[1].alone()), whole)
    assert rows.anew().state_dict() != rows.state_dict()


def test_the_ledger_says_what_was_counted_when_the_rows_were_planned(
    loader: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = []
    plan_packs = packing.plan_packs
    monkeypatch.setattr(
        packing, "plan_packs", lambda *given, **options: plans.append(1) or plan_packs(*given, **options)
    )
    rows = loader(mixed([range(3)] * 4), tokenizer=Asked())
    assert len(plans) == 1
    assert rows.ledger["FirstFitPackingConfig"]["rows_out"] == rows.num_rows
    assert rows.ledger["DatasetMixConfig"].keys() == set(NAMES)
    assert len(plans) == 1


def test_that_a_part_has_no_plan_is_told_before_a_source_is_tokenised(loader: Loader, tmp_path: Any) -> None:
    calls = tmp_path / "calls"
    graph = DatasetConcatConfig(datasets=(planned(calls_file=str(calls)), stream()))
    assert not loader(graph, planned=None, repeat=True).is_planned
    assert not calls.exists()
