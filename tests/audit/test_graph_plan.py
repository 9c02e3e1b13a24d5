"""The plan of a graph: what a run counts, before it runs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import DictConfig, OmegaConf

from torchpipe._shipped_files import configs_folder, sample_file
from torchpipe.audit import plan_json, plan_text
from torchpipe.audit.graph_config import built_graph
from torchpipe.audit.plan_report import PlanReport, plan_config
from torchpipe.errors import ConfigError
from torchpipe.loading import GlobalSteps
from torchpipe.pipeline import GraphSteps, SampleProcessor, TextSequence
from torchpipe.pipeline.planned.batches import PlannedBatches
from torchpipe.pipeline.planned.row_steps import Cursor, RowSteps

Graph = Callable[..., DictConfig]
TOO_LONG = "of the (rows|tokens) are dropped, in documents that are too long"
pytestmark = pytest.mark.filterwarnings(f"ignore:.*{TOO_LONG}")  # three of the 24 rows are, which the counts show


class Draws(SampleProcessor):
    """A row of random tokens."""

    def __call__(self, sample: Any, rng: np.random.Generator) -> TextSequence:
        ids = rng.integers(5, 300, size=sample)
        return TextSequence(input_ids=ids[:-1], labels=ids[1:])


@pytest.fixture
def config(tmp_path: Path) -> Graph:
    """Function (**overrides) -> configs/tiny/graph.yaml on some sample chats; ``__`` stands for a dot."""

    def build(**overrides: Any) -> DictConfig:
        found = OmegaConf.load(configs_folder() / "tiny" / "graph.yaml")
        assert isinstance(found, DictConfig)
        settings = {
            "data_file": str(sample_file()),
            "dataloader.cache_dir": str(tmp_path),
            "dataloader.num_proc": 1,
            "tokenizer.max_seq_len": 256,
        }
        for key, value in {**settings, **{key.replace("__", "."): value for key, value in overrides.items()}}.items():
            OmegaConf.update(found, key, value)
        for child in (OmegaConf.select(found, "dataloader.dataset.dataset") or {"datasets": []})["datasets"]:
            child.dataset.source.split = "train[:24]"
        return found

    return build


def text_of(report: PlanReport) -> str:
    return plan_text.to_text(report)


def test_sources_nodes_and_rows_are_what_a_run_counts(config: Graph) -> None:
    cfg = config(max_steps=None, dataloader__repeat=False, gradient_accumulation_steps=2)
    plan = plan_config(cfg, world_size=3).graph
    assert plan is not None
    assert plan.rows is not None
    loader, _ = built_graph(cfg, world_size=3)
    assert isinstance(loader.rows, PlannedBatches)
    account = loader.ledger
    for source in plan.sources:
        assert source.counts is not None
        assert source.account == account[source.name]
    assert [source.name for source in plan.sources] == ["chats", "last turns"]
    assert {node.name: node.account for node in plan.nodes} == {
        name: told for name, told in account.items() if name not in ("chats", "last turns")
    }
    steps = list(GraphSteps(loader, global_batch_size=6, collate_fn=list).until())
    assert plan.num_steps == len(steps)
    assert plan.rows.num_rows == sum(step.num_packs for step in steps) == loader.num_rows
    assert plan.steps_an_epoch == plan.rows.num_rows / 6
    alone, _ = built_graph(cfg)
    batches = list(alone)
    assert plan.rows.num_trained == sum(int((labels != -100).sum()) for _, labels in batches)
    assert plan.rows.num_tokens == sum(int((~inputs["padding_mask"]).sum()) for inputs, _ in batches)
    assert plan.rows.num_documents == sum(
        int(((inputs["positions"] == 0) & ~inputs["padding_mask"]).sum()) for inputs, _ in batches
    )
    assert plan.rows.num_positions == 256 * len(batches)


def test_the_first_epoch_is_laid_out_over_ranks_as_a_run_lays_it_out() -> None:
    """What the spread is measured on."""
    costs = np.arange(11) * 7 % 11
    ways: list[tuple[Any, Any]] = [("none", None), ("within_step", lambda epoch, rows: costs[rows])]
    for balance, costs_of in ways:
        rows = RowSteps(lambda epoch: 11, start=Cursor(0, 0), num_epochs=1, global_batch_size=4, costs=costs_of)
        measured = GlobalSteps(num_packs=11, global_batch_size=4, shuffle=False, balance=balance, costs=costs)
        for step in range(3):
            layouts = [each.layout(0, step, world_size=2, batch_size=1).tolist() for each in (rows, measured)]
            assert layouts[0] == layouts[1]


@pytest.mark.parametrize("balance", ["within_step", "none"])
def test_what_balance_gives_is_told_beside_the_other_way(balance: Any, config: Graph) -> None:
    cfg = config(max_steps=7, dataloader__balance=balance, gradient_accumulation_steps=3)
    plan = plan_config(cfg, world_size=2)
    assert plan.graph is not None
    assert plan.graph.rows is not None
    spreads = plan.graph.rows.spreads
    assert plan.graph.rows.spread == spreads[plan.graph.rows.balance]
    assert spreads["within_step"].mean < spreads["none"].mean
    other: Any = next(way for way in spreads if way != balance)
    text = text_of(plan)
    assert f"{balance}: the costliest rank costs {plan.graph.rows.spread.worst:.3f} times" in text
    assert f"{other}: {spreads[other].worst:.3f} and {spreads[other].mean:.3f}" in text
    assert ("A run evens ranks out by the cost for" in text) == (balance == "within_step")


def test_text_says_what_each_part_did(config: Graph) -> None:
    text = text_of(plan_config(config(max_steps=7), world_size=2))
    lines = [line.split() for line in text.splitlines()]
    heads = [line[0] for line in lines if line]
    assert heads[0] == "dataloader:"
    assert [head for head in heads if head in ("source", "mix", "packing", "rows", "steps", "balance")] == [
        *("source", "source", "mix", "packing", "rows", "steps", "balance")
    ]
    assert f"chats, of {sample_file()} (24 of 280 rows): 24 rows in, 21 out; 3 too long" in text
    assert "3 more rows left out, longer than max_context_length" in text
    assert "DatasetMixConfig, by trained tokens, up to the end of the first source: " in text
    assert "served of 75.00%" in text
    assert (
        "an epoch, 7 in the run; 2 rows a step and 0 of padding = world size 2 x accumulation 1 x rows a batch 1"
        in text
    )
    assert "within_step: the costliest rank costs " in text
    assert "a rank has one row of a step, and there is nothing to even out" in text
    assert text.endswith("No other packs are compared: the nodes of the graph say how its rows are packed.")


def test_what_packing_leaves_out_is_counted(config: Graph) -> None:
    single = {
        "_component_": "torchpipe.pipeline.SingleDatasetConfig",
        "source": [{"text": "a" * 20}, {"text": "b" * 900}, {"text": "c"}],
        "processor": {"_component_": "torchpipe.pipeline.TextProcessor.Config"},
    }
    graph = {"_component_": "torchpipe.pipeline.FirstFitPackingConfig", "dataset": single, "overflow": "drop"}
    cfg = config(dataloader__dataset=None)
    cfg.dataloader.dataset = graph
    text = text_of(plan_config(cfg))
    assert "FirstFitPackingConfig, best_fit_decreasing: fill 8.98%; 3 rows in, 1 out; " in text
    assert "924 tokens in, 23 out, 233 padding; 1 (901 tokens) too long" in text
    assert "one rank: nothing to share out" in text


def test_a_plan_warns_of_a_source_that_is_dropped_for_its_length(config: Graph) -> None:
    with pytest.warns(UserWarning, match=f"chats: 12% {TOO_LONG}: 3 of 24. Raise max_context_length"):
        plan_config(config())


def test_rows_that_no_batch_has_room_for_are_told(config: Graph) -> None:
    cfg = config(dataloader__dataset=None)
    cfg.dataloader.dataset = {
        "_component_": "torchpipe.pipeline.SingleDatasetConfig",
        "source": [{"text": "abc " * 200}],
        "processor": {"_component_": "torchpipe.pipeline.TextProcessor.Config"},
    }
    assert "a run stops: the longest row has " in text_of(plan_config(cfg))


def test_json_has_the_same_numbers(config: Graph) -> None:
    report = plan_config(config(), world_size=2)
    found = json.loads(plan_json.to_json(report))
    assert found["schema"] == "torchpipe.plan/1"
    assert found["sections"] == found["alternatives"] == []
    graph = found["graph"]
    assert report.graph is not None
    assert report.graph.rows is not None
    assert graph["rows"]["num_rows"] == report.graph.rows.num_rows
    assert graph["rows"]["fill"] == report.graph.rows.fill
    assert graph["steps_an_epoch"] == report.graph.steps_an_epoch
    assert [source["account"]["rows_out"] for source in graph["sources"]] == [21, 21]
    assert {node["kind"] for node in graph["nodes"]} == {"mix", "packing"}
    assert set(graph["rows"]["spread"]) == {"worst", "mean", "worst_micro_batch", "worst_step", "num_steps"}
    assert graph["rows"]["spreads"][graph["rows"]["balance"]] == graph["rows"]["spread"]


def test_a_graph_that_grain_runs_is_told_in_one_sentence_and_what_is_known(config: Graph) -> None:
    cfg = config(dataloader__dataset=None, max_steps=5)
    cfg.dataloader.dataset = {
        "_component_": "torchpipe.pipeline.FirstFitPackingConfig",
        "dataset": {
            "_component_": "torchpipe.pipeline.SingleDatasetConfig",
            "name": "noise",
            "source": [20, 30, 40],
            "processor": {"_component_": f"{__name__}.Draws.Config"},
        },
    }
    report = plan_config(cfg, world_size=2)
    assert report.graph is not None
    assert report.graph.rows is None
    text = text_of(report)
    assert text.startswith(
        "dataloader: run by Grain, as rows come, and not planned: Draws draws random numbers (integers)\n"
        "  source   noise, of list: 3 rows\n"
        "  known    batches of 256 tokens, documents of at most 256; "
    )
    assert "\n  steps    5 in the run; 2 rows a step" in text
    assert json.loads(plan_json.to_json(report))["graph"]["rows"] is None


def test_held_out_rows_beside_a_graph_are_planned_too(config: Graph) -> None:
    cfg = config()
    cfg.dataset_val = {
        "_component_": "torchpipe.datasets.chat_dataset",
        "source": str(sample_file()),
        "split": "train[:9]",
        "conversation_column": "messages",
        "conversation_style": "openai",
    }
    report = plan_config(cfg)
    assert [section.section for section in report.sections] == ["dataset_val"]
    assert "\ndataset_val: " in text_of(report)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"max_steps": None}, "The run has no end"),
        ({"batch_size": 2}, "batch_size has no effect beside dataloader"),
        ({"tokenizer": None}, "The config has no tokenizer section"),
        ({"gradient_accumulation_steps": 0}, "gradient_accumulation_steps is 0"),
        ({"num_tokens_per_batch": 0}, "num_tokens_per_batch is 0"),
        ({"dataloader.dataset": {"_component_": "torchpipe.data.OpenAIToMessages"}}, "OpenAIToMessages"),
    ],
)
def test_what_a_run_would_refuse_is_refused(config: Graph, settings: dict[str, Any], sentence: str) -> None:
    cfg = config()
    for key, value in settings.items():
        OmegaConf.update(cfg, key, value, merge=False)
    with pytest.raises(ConfigError, match=sentence):
        plan_config(cfg)


def test_other_packs_are_not_compared(config: Graph) -> None:
    with pytest.raises(ConfigError, match="No other packs are compared: the nodes of the graph say"):
        plan_config(config(), strategies=["next_fit"])
    with pytest.raises(ConfigError, match="A graph takes no max_seq_len"):
        plan_config(config(), max_seq_lens=[64])
