"""What decides the rows of a graph that Grain runs, node by node."""

import dataclasses
import hashlib
import json
from typing import Any

from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.pipeline.dataset import WeightedDataset
from torchpipe.pipeline.graph_text import leaf_text
from torchpipe.pipeline.node_label import NodeNames, described, node_label
from torchpipe.pipeline.planned.leaf import LeafRecipe
from torchpipe.pipeline.types import DatasetBuildContext, DatasetIterationPolicy


def graph_identity(config: Any, *, context: DatasetBuildContext, policy: DatasetIterationPolicy) -> dict[str, str]:
    """A short text for each node, and for each setting that all share.

    Of a source that is read by number its fingerprint counts, where it has one; of a stream its settings.
    """
    found = {
        name: _settings(node) if _children(node) else _leaf(node, context, policy)
        for name, node in named_nodes(config).items()
    }
    shared = {
        "seed": policy.seed,
        "shuffle": policy.shuffle,
        "capacity": context.num_tokens_per_batch,
        "max_context_length": context.max_context_length,
        "max_num_documents": context.max_num_documents,
        "streaming_shuffle_buffer_size": policy.streaming_shuffle_buffer_size,
    }
    return found | {name: str(value) for name, value in shared.items()}


def named_nodes(config: Any) -> dict[str, Any]:
    """The configs of a graph's nodes by what Grain's way calls them, parents first; equal names are numbered."""
    found: dict[str, Any] = {}
    names = NodeNames()
    waiting = [config]
    while waiting:
        node = waiting.pop(0)
        found[names.unused(_label(node))] = node
        waiting += _children(node)
    return found


def _label(node: Any) -> str:
    """As a plan has it: the name of a child is that of its data set, and beside it stands its weight."""
    is_named = isinstance(node, WeightedDataset) and node.name is not None
    return f"weight of {node.name}" if is_named else node_label(node)


def _children(node: Any) -> list[Any]:
    below = [node.named] if isinstance(node, WeightedDataset) else [getattr(node, "dataset", None)]
    below += getattr(node, "datasets", ())
    return [child for child in below if child is not None]


def _settings(node: Any) -> str:
    fields = {
        field.name: described(getattr(node, field.name))
        for field in dataclasses.fields(node)
        if field.name not in ("dataset", "datasets", "name")
    }
    return f"{type(node).__name__} {_short(fields)}"


def _leaf(node: Any, context: DatasetBuildContext, policy: DatasetIterationPolicy) -> str:
    source: Any = getattr(node, "source", None)
    if callable(getattr(source, "build", None)):
        built = source.build(dataset_iteration_policy=policy)
        source = built if isinstance(built, RandomAccessDataSource) else source
    processor = getattr(node, "processor", None)
    made_of = {"source": _short(described(source)), "processing": _short(described(processor)), "tokenizer": ""}
    if hasattr(node, "row_policy"):
        recipe = LeafRecipe(
            label="",
            source=source,
            pre_filters=node.pre_filters,
            processor=None if processor is None else processor.build(context=context),
            post_filters=node.post_filters,
            context=context,
            row_policy=node.row_policy,
        )
        made_of |= {name: told for name, told in recipe.made_of().items() if told}
    return leaf_text({**made_of, "samples": _short(made_of)})


def _short(value: Any) -> str:
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=6).hexdigest()
