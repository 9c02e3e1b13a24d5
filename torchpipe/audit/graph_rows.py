"""The rows of a graph, with where each of their documents comes from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from torchpipe._suggest import did_you_mean, listed
from torchpipe.audit.documents import with_provenance
from torchpipe.audit.explanation import DocumentView
from torchpipe.audit.item import num_cut_of
from torchpipe.audit.origin import Origin, decided_by
from torchpipe.constants import IGNORE_INDEX
from torchpipe.datasets import SFTDataset
from torchpipe.datasets.row_number import row_of_sample
from torchpipe.errors import ConfigError
from torchpipe.pipeline.chat.processor import ChatProcessor
from torchpipe.pipeline.graph_steps import packed_item
from torchpipe.pipeline.loader import GrainDataLoader
from torchpipe.pipeline.planned.batches import PlannedBatches
from torchpipe.pipeline.planned.graph import PlannedGraph
from torchpipe.pipeline.planned.leaf import LeafRecipe
from torchpipe.pipeline.planned.nodes import Leaf, Node
from torchpipe.pipeline.planned.packing import Packed
from torchpipe.pipeline.planned.rows import PlannedRows
from torchpipe.pipeline.sequences import TextSequence
from torchpipe.store import SFTRecipe


class Place(NamedTuple):
    """Where a document comes from.

    Attributes:
        origin: its source.
        row: the source's row; nth: which of that row's documents it is (a part of); start: its first token there.
    """

    origin: Origin
    row: int
    nth: int
    start: int


class GraphRows:
    """Rows of a graph as :func:`~torchpipe.audit.explain` takes them: a map-style data set.

    A row of a graph has its labels beside its tokens, and the last label of a document stands for a token that is no
    input. Items have that token too where it is trained, at the end of its document.

    Args:
        name: what the rows are called.
        rows: by number, each a :class:`~torchpipe.pipeline.TextSequence`.
        places: gives where the documents of a row come from; fewer than it has where that isn't known.
        packed: whether a row may hold several documents.
    """

    def __init__(self, name: str, rows: Any, *, places: Any, packed: bool) -> None:
        self.name = name
        self.packed = packed
        self._rows = rows
        self._places = places

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return item_of_sequence(self._rows[index], packed=self.packed)

    def places(self, number: int) -> Sequence[Place]:
        """Where the documents of a row come from, as far as that is known."""
        return self._places(number)

    def origin_of(self, number: int) -> Origin:
        """The source of a row that is of one; else one of which nothing is known."""
        found = {id(place.origin): place.origin for place in self.places(number)}
        return next(iter(found.values())) if len(found) == 1 and not self.packed else Origin(dataset=None, name=None)

    def told(self, document: DocumentView, item: Mapping[str, Any], number: int, place: int) -> DocumentView:
        """A document with what is known of where it comes from.

        Args:
            document: of the row, of which nothing more than its tokens is known.
            item: the row, as it was given.
            number: the row's; place: the document's in the row.
        """
        targets: Sequence[bool] = item["ends_with_target"]
        document = replace(document, ends_with_target=targets[place], offset=document.offset - sum(targets[:place]))
        places = self.places(number)
        if place >= len(places):
            return document
        origin, row, nth, start = places[place]
        document = replace(document, sample=row, source=origin.name, start=start, cut_to="max_context_length")
        made = origin.sample_of(row, nth)
        document = replace(document, num_cut=num_cut_of(made, number))
        return with_provenance(document, origin, made)


def item_of_sequence(sequence: TextSequence, *, packed: bool) -> dict[str, Any]:
    """A sequence as explain takes it: ``tokens``, ``labels``, ``input_pos``, and ``seq_lens`` where it is packed.

    Each document ends with the token that its last label is, if that is trained; ``ends_with_target`` says for each
    whether it does. Padding is one document, the last; ``fills`` says which it is.

    >>> two = TextSequence(input_ids=np.array([5, 6, 8]), labels=np.array([6, 7, -100]), positions=np.array([0, 1, 0]))
    >>> item = item_of_sequence(two, packed=True)
    >>> item["tokens"], item["labels"], item["seq_lens"]
    ([5, 6, 7, 8], [6, 7, -100, -100], [3, 1])
    """
    ids, labels = np.asarray(sequence.input_ids), np.asarray(sequence.labels)
    positions = np.arange(len(ids)) if sequence.positions is None else np.asarray(sequence.positions)
    fills = np.zeros(len(ids), np.bool_) if sequence.padding_mask is None else np.asarray(sequence.padding_mask)
    used = len(ids) - int(fills.sum())
    begins = [0, *(np.flatnonzero(positions[1:used] == 0) + 1).tolist()] if used else []
    bounds = list(zip(begins, [*begins[1:], used], strict=True)) + ([(used, len(ids))] if used < len(ids) else [])
    item: dict[str, Any] = {"tokens": [], "labels": [], "input_pos": []}
    targets, lengths = [], []
    for begin, end in bounds:
        has_target = begin < used and int(labels[end - 1]) != IGNORE_INDEX
        item["tokens"] += [*ids[begin:end].tolist(), *([int(labels[end - 1])] if has_target else [])]
        item["labels"] += [*labels[begin:end].tolist(), *([IGNORE_INDEX] if has_target else [])]
        item["input_pos"] += [*positions[begin:end].tolist(), *([int(positions[end - 1]) + 1] if has_target else [])]
        targets.append(has_target)
        lengths.append(end - begin + has_target)
    fills_row = [begin >= used for begin, _ in bounds]
    if packed or len(bounds) > 1:
        item["seq_lens"] = lengths
    return {**item, "ends_with_target": targets, "fills": fills_row}


@dataclass(frozen=True, kw_only=True, eq=False)
class GraphView:
    """A graph whose rows are looked at.

    Attributes:
        loader: of the graph.
    """

    loader: GrainDataLoader

    def rows_of(self, section: str | None, *, rows: Sequence[int]) -> GraphRows:
        """The rows of a node.

        Args:
            section: a node's name; "" is the uppermost one, and None the first source. A source's rows are in its own
                order, those of other nodes in the order of the first epoch.
            rows: which are looked at, where Grain runs the graph.

        Raises:
            ConfigError: there is no such node, or such rows can't be had where Grain runs the graph.
        """
        if self.graph is None:
            return self._as_they_come(section, rows)
        node = self._node(self.graph, section)
        is_source = isinstance(node, Leaf)
        plan = node.items(self.graph.run) if is_source else node.rows(self.graph.run, 0)
        sequences = PlannedRows(
            lambda epoch: plan,
            self.graph.run.samples,
            max_context_length=self.graph.run.max_context_length,
            longest_row=self.graph.run.capacity,
        )
        name = f"{node.name}, of {self.graph.recipes[node.name].described_source}" if is_source else node.name
        return GraphRows(
            name,
            sequences,
            places=lambda number: [self._place(*span) for span in plan.spans(number)],
            packed=any(isinstance(one, Packed) for one in _with_children(node)),
        )

    @cached_property
    def graph(self) -> PlannedGraph | None:
        """The plan; None where Grain runs the graph."""
        source = self.loader.rows
        return source.graph if isinstance(source, PlannedBatches) else None

    @cached_property
    def origins(self) -> dict[str, Origin]:
        """The sources by the names of their nodes; none where Grain runs the graph."""
        return {} if self.graph is None else {name: origin_of(recipe) for name, recipe in self.graph.recipes.items()}

    def decided_by(self, rows: GraphRows, numbers: Sequence[int]) -> dict[str, Any]:
        """What decides which tokens of some rows are trained, name to value; None where rows differ in it."""
        tokenizer = self.loader.context.tokenizer
        found = {id(place.origin): place.origin for number in numbers for place in rows.places(number)}
        told = [decided_by(origin, tokenizer) for origin in found.values()]
        told = told or [decided_by(Origin(dataset=None, name=None), tokenizer)]
        same = {name: value if all(one.get(name) == value for one in told) else None for name, value in told[0].items()}
        return {**same, "max_seq_len": None, "max_context_length": self.loader.context.max_context_length}

    def _node(self, graph: PlannedGraph, section: str | None) -> Node:
        if section == "":
            return graph.root
        if section is None:
            return next(node for node in graph.nodes.values() if isinstance(node, Leaf))
        if section not in graph.nodes:
            raise ConfigError(
                f"There is no section {section!r} in the config, and no node of that name in its graph, which has "
                f"{listed(graph.nodes)}.{did_you_mean(section, graph.nodes)}"
            )
        return graph.nodes[section]

    def _place(self, sample: int, start: int, stop: int) -> Place:
        assert self.graph is not None
        leaf = self.graph.leaf_of(sample)
        row, nth = row_of_sample(leaf.store.rows, sample - leaf.first_sample)
        return Place(self.origins[leaf.name], row, nth, start)

    def _as_they_come(self, section: str | None, rows: Sequence[int]) -> GraphRows:
        why = f"Grain runs this graph ({self.loader.why_not_planned})"
        if section:
            raise ConfigError(
                f"{why}, so that its rows are shown as they come, and not those of the node {section!r}. Leave out "
                "--section."
            )
        if min(rows, default=0) < 0:
            raise ConfigError(f"{why}, and how many rows it has isn't known. Count rows from 0.")
        taken = list(_first_batches(self.loader, max(rows, default=-1) + 1))
        return GraphRows("the graph, rows as they come", taken, places=lambda number: (), packed=True)


def _first_batches(loader: GrainDataLoader, number: int) -> Iterator[TextSequence]:
    fresh = loader.alone()
    try:
        for _, batch in zip(range(number), fresh, strict=False):
            item, mask = packed_item(batch), batch[0].get("padding_mask")
            yield TextSequence(
                input_ids=item["tokens"].numpy(),
                labels=item["labels"].numpy(),
                positions=item["input_pos"].numpy(),
                padding_mask=None if mask is None else mask.numpy(),
            )
    finally:
        fresh.close()


def _with_children(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _with_children(child)


def origin_of(recipe: LeafRecipe) -> Origin:
    """A graph's source as the origin of samples: of conversations, where a ChatProcessor makes them."""
    processor = recipe.processor
    if not isinstance(processor, ChatProcessor):
        return Origin(dataset=None, name=recipe.label)
    writer: Any = processor.transform.model_transform
    as_dataset = SFTDataset.of_recipe(
        SFTRecipe(
            source=recipe.source,
            message_transform=ProcessedChat(processor),
            model_transform=writer,
            overflow=processor.transform.overflow,
        ),
        as_stored=True,
    )
    return Origin(dataset=as_dataset, name=recipe.label)


class ProcessedChat:
    """What a processor reads of a row, as a message transform.

    Attributes:
        message_transform: the processor's function of a row.
        masking_strategy: which messages it trains.
    """

    def __init__(self, processor: ChatProcessor) -> None:
        self._processor = processor
        self.message_transform = processor.config.messages_fn
        self.masking_strategy = processor.config.masking_strategy

    def __call__(self, sample: Mapping[str, Any]) -> Mapping[str, Any]:
        """The row's messages and tools."""
        return self._processor.conversation(sample)
