"""What a run makes of a config's graph: sources, nodes, rows, and how even its ranks are."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np

from torchpipe.audit.graph_config import SECTION, built_graph
from torchpipe.audit.plan_cost import StatedCost
from torchpipe.data.ledger import SampleCounts
from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.loading import GlobalSteps, Spread, measure_spread
from torchpipe.loading.balance import Balance
from torchpipe.pipeline.account import source_account
from torchpipe.pipeline.by_grain.identity import named_nodes
from torchpipe.pipeline.graph_steps import GraphSteps
from torchpipe.pipeline.loader import GrainDataLoader
from torchpipe.pipeline.loader_options import GraphBalance
from torchpipe.pipeline.planned.batches import PlannedBatches
from torchpipe.pipeline.planned.graph import PlannedGraph
from torchpipe.pipeline.planned.leaf import LeafRecipe
from torchpipe.pipeline.planned.nodes import Leaf, Node
from torchpipe.pipeline.recipe_graph import check_graph_settings
from torchpipe.sources import describe_source
from torchpipe.store.accounts import checked_ledger, sample_counts

MAX_STEPS = 1000
"""Steps of the first epoch whose layout over ranks is measured."""


@dataclass(frozen=True, kw_only=True)
class SourcePlan:
    """A source of a graph.

    Attributes:
        name: of its node; source: what it reads, such as its files.
        num_rows: that it has; None where that isn't known.
        account: what became of its rows, as in the loader's ledger (:func:`torchpipe.pipeline.account.account`); None
            where Grain runs the graph.
        counts: samples and tokens; each sample has the token that its last label is. None likewise.
    """

    name: str
    source: str
    num_rows: int | None
    account: Mapping[str, Any] | None = None
    counts: SampleCounts | None = None


@dataclass(frozen=True, kw_only=True)
class NodePlan:
    """A node above others, in the first epoch.

    Attributes:
        name: of the node; kind: of it: "mix", "concat" or "packing".
        settings: that it has, in words: what a mix is by, how rows are packed.
        parts: the nodes below it.
        num_rows: that it gives.
        account: what it says of its children's rows: of a mix, for each of them its share (``target`` and ``served``,
            0 to 1), rows and epochs; of packing as of a source.
    """

    name: str
    kind: str
    settings: Mapping[str, Any]
    parts: tuple[str, ...]
    num_rows: int
    account: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class RowsPlan:
    """The rows of the first epoch of a planned graph.

    Attributes:
        num_rows: of the epoch; num_documents: in all of them.
        num_tokens: of all rows, padding left out; num_trained: labels that are trained.
        num_positions: of the batches that they fill.
        longest: tokens of the longest row.
        balance: how the rows of a step go to the ranks in a run.
        spreads: of the cost over ranks, by the ways that rows may go to them.
    """

    num_rows: int
    num_documents: int
    num_tokens: int
    num_trained: int
    num_positions: int
    longest: int
    balance: Balance
    spreads: Mapping[Balance, Spread]

    @property
    def spread(self) -> Spread:
        """Of the cost over ranks, in a run."""
        return self.spreads[self.balance]

    @property
    def fill(self) -> float:
        """The part of all positions that holds tokens."""
        return self.num_tokens / self.num_positions


@dataclass(frozen=True, kw_only=True)
class GraphPlan:
    """What a run makes of a graph.

    Attributes:
        section: its key.
        why_not_planned: why Grain runs it; None where it is planned.
        sources, nodes: of the graph; of one that Grain runs no node is known.
        rows: of the first epoch; None where Grain runs the graph.
        max_context_length: tokens of the longest document; num_tokens_per_batch: of a batch.
        global_batch_size: rows of a step; rows_a_batch: of a micro-batch; micro_batches: of a rank in a step.
        steps_told: how they make a step, in words.
        num_epochs: of the run, None for no end; num_steps: of the run, None where that isn't known.
        world_size: ranks.
    """

    section: str
    why_not_planned: str | None
    sources: tuple[SourcePlan, ...]
    nodes: tuple[NodePlan, ...]
    rows: RowsPlan | None
    max_context_length: int
    num_tokens_per_batch: int
    global_batch_size: int
    rows_a_batch: int
    micro_batches: int
    steps_told: str
    num_epochs: int | None
    num_steps: int | None
    world_size: int

    @property
    def steps_an_epoch(self) -> float | None:
        """Rows of the first epoch by rows of a step: a step may have rows of two epochs. None where it isn't known."""
        return None if self.rows is None else self.rows.num_rows / self.global_batch_size


def plan_graph(cfg: Mapping[Any, Any], settings: Mapping[str, Any], *, world_size: int, cost: StatedCost) -> GraphPlan:
    """The plan of a config's graph. Its sources are tokenised where there is no store of them yet.

    Args:
        cfg: a whole config, with a section ``dataloader``; what a run would refuse of it is refused.
        settings: ``gradient_accumulation_steps``, ``global_batch_size`` and ``max_steps`` of the run.
        world_size: ranks.
        cost: of a document.

    Raises:
        ConfigError: a part of the config can't be built, or does not go with the others.
        Exception: a bad row's own error, which names it.
    """
    sections = {key: cfg.get(key) for key in ("dataset", SECTION)}
    check_graph_settings(cfg, SimpleNamespace(**sections, max_steps=settings["max_steps"]))
    loader, _ = built_graph(cfg, world_size=world_size)
    rows_a_batch = loader.collator.num_rows_per_batch()
    size = settings["global_batch_size"] or rows_a_batch * settings["gradient_accumulation_steps"] * world_size
    steps = GraphSteps(loader, global_batch_size=size, collate_fn=list)
    graph = loader.rows.graph if isinstance(loader.rows, PlannedBatches) else None
    config = loader.config
    return GraphPlan(
        section=SECTION,
        why_not_planned=loader.why_not_planned,
        sources=_sources_as_configured(loader) if graph is None else _sources(graph),
        nodes=() if graph is None else tuple(_node(graph, node) for node in graph.nodes.values() if node.children),
        rows=None if graph is None else _rows(graph, loader, size, cost),
        max_context_length=loader.context.max_context_length,
        num_tokens_per_batch=loader.context.num_tokens_per_batch,
        global_batch_size=size,
        rows_a_batch=rows_a_batch,
        micro_batches=steps.accumulation,
        steps_told=steps.describe(),
        num_epochs=config.num_epochs or (None if config.repeat else 1),
        num_steps=steps.num_steps(max_steps=settings["max_steps"]),
        world_size=world_size,
    )


def _sources(graph: PlannedGraph) -> tuple[SourcePlan, ...]:
    leaves = [node for node in graph.nodes.values() if not node.children]
    return tuple(_source(graph, leaf, graph.recipes.get(leaf.name)) for leaf in leaves)


def _source(graph: PlannedGraph, node: Node, recipe: LeafRecipe | None) -> SourcePlan:
    if not isinstance(node, Leaf) or recipe is None:  # it has no rows
        return SourcePlan(name=node.name, source="no rows", num_rows=0, account=node.account(graph.run, 0))
    ledger = checked_ledger(node.store)
    return SourcePlan(
        name=node.name,
        source=recipe.described_source,
        num_rows=ledger["read"],
        account=source_account(ledger),
        counts=sample_counts(node.store),
    )


def _sources_as_configured(loader: GrainDataLoader) -> tuple[SourcePlan, ...]:
    """The sources of a graph that Grain runs, of which no row is read."""
    found = []
    for name, config in named_nodes(loader.config.dataset).items():
        if (source := getattr(config, "source", None)) is not None:
            number = len(source) if isinstance(source, RandomAccessDataSource) else None
            found.append(SourcePlan(name=name, source=describe_source(source, {}), num_rows=number))
    return tuple(found)


def _node(graph: PlannedGraph, node: Node) -> NodePlan:
    return NodePlan(
        name=node.name,
        kind=node.kind,
        settings=node.settings(),
        parts=tuple(child.name for child in node.children),
        num_rows=len(node.rows(graph.run, 0)),
        account=node.account(graph.run, 0),
    )


def _rows(graph: PlannedGraph, loader: GrainDataLoader, global_batch_size: int, cost: StatedCost) -> RowsPlan:
    plan, run, rows_a_batch = graph.rows(0), graph.run, loader.collator.num_rows_per_batch()
    # To a run all epochs are one order of rows; the first of them is laid out over ranks as an epoch of its own is.
    steps = GlobalSteps(
        num_packs=len(plan),
        global_batch_size=global_batch_size,
        shuffle=False,
        costs=graph.costs(0, rows_a_batch=rows_a_batch),
    )
    costs = graph.costs(0, rows_a_batch=rows_a_batch, cost=cost.model)
    spreads: dict[Balance, Spread] = {
        way: measure_spread(
            replace(steps, balance=way),
            world_size=loader.policy.dp_world_size,
            batch_size=rows_a_batch,
            costs=costs,
            max_steps=MAX_STEPS,
        )
        for way in get_args(GraphBalance)
    }
    return RowsPlan(
        num_rows=len(plan),
        num_documents=len(plan.sample),
        num_tokens=int(plan.num_tokens.sum()),
        num_trained=int(run.trained(plan).sum()),
        num_positions=math.ceil(len(plan) / rows_a_batch) * run.capacity,
        longest=int(np.max(plan.num_tokens)),
        balance=loader.config.balance,
        spreads=spreads,
    )
