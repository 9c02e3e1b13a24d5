"""A dataset section of a config to a data set."""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torchpipe._dotpath import resolve
from torchpipe._progress import track
from torchpipe.data.ledger import SampleCounts
from torchpipe.datasets.concat import ConcatDataset
from torchpipe.datasets.growing import GrowingPackedDataset
from torchpipe.datasets.item_samples import samples_in
from torchpipe.datasets.packed import PackedDataset
from torchpipe.datasets.row_dataset import left_out_before
from torchpipe.errors import ConfigError

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def instantiate_dataset(
    cfg: Mapping[Any, Any] | Sequence[Mapping[Any, Any]],
    tokenizer: Any,
    *,
    caller_globals: Mapping[str, Any] | None = None,
) -> Any:
    """The data set that ``cfg._component_`` builds, with the tokenizer handed over.

    A list of sections gives a :class:`~torchpipe.datasets.ConcatDataset` of theirs.

    It is the first argument where the component's first parameter is positional (builders). Otherwise it is
    ``tokenizer=`` where there is such a parameter (``PreferenceDataset``), else ``model_transform=`` (``SFTDataset``).
    A component whose first parameter the config itself fills gets no tokenizer.

    Args:
        cfg: the dataset section, or a list of them.
        tokenizer: the model transform.
        caller_globals: where a name without a dot is looked up first; the calling module's globals by default.

    Raises:
        ConfigError: ``cfg`` is neither a section with a ``_component_`` nor a list of such.
    """
    if caller_globals is None:
        caller_globals = sys._getframe(1).f_globals
    if isinstance(cfg, Sequence) and not isinstance(cfg, str):
        if len(cfg) == 0:
            raise ConfigError("The list of dataset sections is empty. Give at least one.")
        return ConcatDataset([instantiate_dataset(one, tokenizer, caller_globals=caller_globals) for one in cfg])
    if not isinstance(cfg, Mapping) or "_component_" not in cfg:
        raise ConfigError(
            "A dataset section is a mapping with a _component_, such as torchpipe.datasets.chat_dataset, or a list of "
            f"such; this is a {type(cfg).__name__}."
        )
    from torchpipe.config import instantiate  # brings omegaconf, which a plain DataLoader does not need

    component = resolve(cfg["_component_"], caller_globals=caller_globals)
    parameters = list(inspect.signature(component).parameters.values())
    if not parameters or parameters[0].kind not in _POSITIONAL:
        name = "tokenizer" if any(one.name == "tokenizer" for one in parameters) else "model_transform"
        return instantiate(cfg, caller_globals=caller_globals, **{name: tokenizer})
    if parameters[0].name in cfg:
        return instantiate(cfg, caller_globals=caller_globals)
    return instantiate(cfg, tokenizer, caller_globals=caller_globals)


def describe_packing(dataset: Any) -> str:
    """One line on the packs of a data set, of each part where several are joined; "" where it is not packed."""
    if isinstance(dataset, ConcatDataset):
        return "; ".join(filter(None, map(describe_packing, dataset.datasets)))
    return dataset.describe() if isinstance(dataset, PackedDataset | GrowingPackedDataset) else ""


def count_samples(dataset: Any, *, each: Callable[[Mapping[str, Any]], None] | None = None) -> SampleCounts:
    """What became of a data set's rows: every row is read once, so that a bad one is found here.

    A packed data set has counted while it packed.

    Args:
        each: is given every item that is read.
    """
    counts = getattr(dataset, "counts", None)
    if isinstance(counts, SampleCounts):
        return counts
    left_out = left_out_before(dataset)
    counts = SampleCounts(
        filtered_rows=left_out.get("filtered", 0),
        duplicate_rows=left_out.get("duplicate", 0),
        other_part_rows=left_out.get("other_part", 0),
    )
    for index in track(range(len(dataset)), "Checking rows"):
        item = dataset[index]
        for sample in samples_in(item):
            counts.add(sample)
        if each is not None:
            each(item)
    return counts
