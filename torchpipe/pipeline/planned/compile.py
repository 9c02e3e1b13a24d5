"""From the config of a graph to its plan: every source is tokenised once, and nodes are made of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from torchpipe._fingerprint_memory import remembering
from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.errors import DataError
from torchpipe.pipeline.child_policies import child_names
from torchpipe.pipeline.dataset import DatasetConcatConfig, DatasetMixConfig, SingleDatasetConfig
from torchpipe.pipeline.graph_words import with_graph_words
from torchpipe.pipeline.node_label import NodeNames, node_label
from torchpipe.pipeline.packing import ConcatThenSplitPackingConfig, FirstFitPackingConfig
from torchpipe.pipeline.planned.graph import PlannedGraph
from torchpipe.pipeline.planned.leaf import CannotPlan, LeafRecipe
from torchpipe.pipeline.planned.nodes import Concat, Leaf, Mix, Node, NoRows, Run
from torchpipe.pipeline.planned.packing import Packed
from torchpipe.pipeline.too_long import warn_of_too_long
from torchpipe.pipeline.types import DatasetBuildContext, DatasetIterationPolicy
from torchpipe.store import TokenStore, build_store
from torchpipe.store.chosen_samples import ChosenSamples


def planned_graph(
    config: Any,
    *,
    context: DatasetBuildContext,
    policy: DatasetIterationPolicy,
    cache_dir: str | Path | None = None,
    num_proc: int | None = None,
) -> PlannedGraph:
    """The plan of a graph. Its sources are read and tokenised where there is no store of them yet.

    Args:
        config: the uppermost node.
        context: what all nodes share.
        policy: its seed and shuffle hold; ranks and repetition are the loader's.
        cache_dir: where stores are kept; None: as builders of data sets do.
        num_proc: processes that process rows; None: one a processor.

    Raises:
        CannotPlan: a part of it has no plan: a stream, a processor that draws random numbers, a config of one's own.
        Exception: what reading, processing or storing a row raises.
    """
    recipes = _Recipes(context=context, policy=policy)
    recipes.find(config, None)
    compiler = _Compiler(found=recipes.of_sources, cache_dir=cache_dir, num_proc=num_proc)
    # All processors are built by now, and may have added tokens. From here on, none is asked twice what it holds.
    with remembering():
        root = compiler.node(config, None)
    stores = compiler.stores
    whole: Any = stores[0] if len(stores) == 1 else None
    if len(stores) > 1:
        whole = ChosenSamples(stores, np.arange(sum(store.num_samples for store in stores)))
    run = Run(
        seed=policy.seed,
        shuffle=policy.shuffle,
        capacity=context.num_tokens_per_batch,
        max_context_length=context.max_context_length,
        max_num_documents=context.max_num_documents,
        samples=whole,
    )
    graph = PlannedGraph(root=root, run=run, recipes=compiler.recipes)
    for node in graph.nodes.values():
        if isinstance(node, Mix):
            node.warn_of_empty(run)
        if isinstance(node, Leaf):
            counts = node.account(run, 0)
            warn_of_too_long(node.name, rows=(counts["rows_left_out"].get("too_long", 0), counts["rows_in"]))
        if isinstance(node, Packed):
            node.warn_of_too_long(run)
    return graph


@dataclass(kw_only=True)
class _Recipes:
    """Of all sources of a graph, before any is tokenised: that a part has no plan is told first."""

    context: DatasetBuildContext
    policy: DatasetIterationPolicy
    of_sources: dict[int, LeafRecipe] = field(default_factory=dict)
    _names: NodeNames = field(default_factory=NodeNames)

    def find(self, config: Any, name: str | None) -> None:
        """Finds those of a node and all below it, which are named in the order in which nodes are."""
        name = self._names.unused(name or node_label(config))
        if type(config) is SingleDatasetConfig:
            if id(config) not in self.of_sources:
                self.of_sources[id(config)] = self._recipe(config, name)
            return
        for child, child_name in _children(config):
            self.find(child, child_name)

    def _recipe(self, config: SingleDatasetConfig, name: str) -> LeafRecipe:
        processor = None if config.processor is None else config.processor.build(context=self.context)
        if processor is not None and processor.deterministic is False:
            raise CannotPlan(f"{type(processor).__name__} is said not to be deterministic")
        source: Any = config.source
        if not isinstance(source, RandomAccessDataSource) and callable(getattr(source, "build", None)):
            source = source.build(dataset_iteration_policy=self.policy)
        if not isinstance(source, RandomAccessDataSource):
            raise CannotPlan(f"{name} is a stream")
        if len(source) >= _ENDLESS:
            raise CannotPlan(f"{name} has no end: it says that it has {len(source):,} rows")
        return LeafRecipe(
            label=name,
            source=source,
            pre_filters=config.pre_filters,
            processor=processor,
            post_filters=config.post_filters,
            context=self.context,
            row_policy=config.row_policy,
        )


def _children(config: Any) -> list[tuple[Any, str | None]]:
    """The nodes below one, and what it calls them."""
    kind = type(config)  # a subclass may do anything
    if kind is DatasetConcatConfig:
        return [(child, None) for child in config.datasets]
    if kind is DatasetMixConfig:
        return [(child.dataset, child.name) for child in config.datasets]
    if kind in (FirstFitPackingConfig, ConcatThenSplitPackingConfig):
        return [(config.dataset, None)]
    raise CannotPlan(f"{kind.__name__} is run by Grain alone")


@dataclass(kw_only=True)
class _Compiler:
    found: Mapping[int, LeafRecipe]
    cache_dir: str | Path | None
    num_proc: int | None
    stores: list[TokenStore] = field(default_factory=list)
    recipes: dict[str, LeafRecipe] = field(default_factory=dict)
    _names: NodeNames = field(default_factory=NodeNames)
    _leaves: dict[int, tuple[TokenStore, LeafRecipe, dict[str, str]]] = field(default_factory=dict)

    def node(self, config: Any, name: str | None) -> Node:
        """The node of a config; ``name`` is what its parent calls it, if it does."""
        name = self._names.unused(name or node_label(config))
        make: Callable[[Any, str], Node] = {
            SingleDatasetConfig: self._leaf,
            DatasetConcatConfig: self._concat,
            DatasetMixConfig: self._mix,
            FirstFitPackingConfig: self._first_fit,
            ConcatThenSplitPackingConfig: self._concat_then_split,
        }[type(config)]
        return make(config, name)

    def _leaf(self, config: SingleDatasetConfig, name: str) -> Leaf | NoRows:
        if id(config) not in self._leaves:
            recipe = self.found[id(config)]
            if not len(recipe.source):  # pyright: ignore[reportArgumentType]  # rows
                return NoRows(name=name)
            try:
                store = build_store(recipe, cache_dir=self.cache_dir, num_proc=self.num_proc)
            except DataError as error:
                raise with_graph_words(error)  # noqa: B904  # the same error
            shared = next((one for one in self.stores if one.path == store.path), store)  # of equal settings
            self._leaves[id(config)] = (shared, recipe, recipe.made_of())
        store, self.recipes[name], made_of = self._leaves[id(config)]
        if store not in self.stores:
            self.stores.append(store)
        before = self.stores[: self.stores.index(store)]
        first = sum(one.num_samples for one in before)
        return Leaf(name=name, store=store, first_sample=first, made_of=made_of)

    def _concat(self, config: DatasetConcatConfig, name: str) -> Concat:
        return Concat(name=name, parts=tuple(self.node(child, None) for child in config.datasets))

    def _mix(self, config: DatasetMixConfig, name: str) -> Mix:
        child_names(config.datasets)  # two that are given one name are refused
        return Mix(
            name=name,
            parts=tuple(self.node(child.dataset, child.name) for child in config.datasets),
            weights=tuple(child.weights for child in config.datasets),
            max_epochs=tuple(child.max_epochs for child in config.datasets),
            by=config.by,
            stop=config.stop,
        )

    def _first_fit(self, config: FirstFitPackingConfig, name: str) -> Packed:
        return Packed(
            name=name, part=self.node(config.dataset, None), strategy=config.strategy, overflow=config.overflow
        )

    def _concat_then_split(self, config: ConcatThenSplitPackingConfig, name: str) -> Packed:
        return Packed(
            name=name,
            part=self.node(config.dataset, None),
            strategy="concat_then_split",
            overflow="split",
            drops_last=config.last_row == "drop",
        )


_ENDLESS = 1 << 40
"""More rows than can be read once: a data set of Grain that repeats says that it has 2**63 - 1."""
