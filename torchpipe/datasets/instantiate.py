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
from torchpipe.datasets.joined import JoinedDataset
from torchpipe.datasets.mix import MixDataset
from torchpipe.datasets.mix_sections import MixSections, is_mix
from torchpipe.datasets.packed import PackedDataset
from torchpipe.datasets.row_dataset import left_out_before
from torchpipe.datasets.streamed import StreamedDataset
from torchpipe.errors import ConfigError

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def instantiate_dataset(
    cfg: Mapping[Any, Any] | Sequence[Mapping[Any, Any]],
    tokenizer: Any,
    *,
    caller_globals: Mapping[str, Any] | None = None,
) -> Any:
    """The data set that ``cfg._component_`` builds, with the tokenizer handed over.

    A list of sections gives a :class:`~torchpipe.datasets.ConcatDataset` of theirs, or, where they have a ``weight``, a
    :class:`~torchpipe.datasets.MixDataset` (see ``docs/mixing.md``).

    The tokenizer is the first argument where the component's first parameter is positional (builders). Otherwise it is
    ``tokenizer=`` where there is such a parameter (``PreferenceDataset``), else ``model_transform=`` (``SFTDataset``).
    A component whose first parameter the config itself fills gets no tokenizer. One that has ``dataset_arguments``
    (``MixDataset``, ``ConcatDataset``, ``PackedDataset``) gets the data sets that the sections under those keys build,
    each with the tokenizer; a ``PackedDataset`` so written has the tokenizer's max_seq_len and padding, unless the
    config says otherwise.

    Args:
        cfg: the dataset section, or a list of them.
        tokenizer: the model transform.
        caller_globals: where a name without a dot is looked up first; the calling module's globals by default.

    Raises:
        ConfigError: ``cfg`` is neither a section with a ``_component_`` nor a list of such, or what a section builds is
            no data set.
    """
    if caller_globals is None:
        caller_globals = sys._getframe(1).f_globals

    def built(section: Any) -> Any:
        return instantiate_dataset(section, tokenizer, caller_globals=caller_globals)

    if isinstance(cfg, Sequence) and not isinstance(cfg, str):
        if len(cfg) == 0:
            raise ConfigError("The list of dataset sections is empty. Give at least one.")
        if is_mix(cfg):
            return MixDataset(**MixSections.of(cfg).arguments(built))
        return ConcatDataset([built(one) for one in cfg])
    if not isinstance(cfg, Mapping) or "_component_" not in cfg:
        raise ConfigError(
            "A dataset section is a mapping with a _component_, such as torchpipe.datasets.chat_dataset, or a list of "
            f"such; this is a {type(cfg).__name__}."
        )
    component = resolve(cfg["_component_"], caller_globals=caller_globals)
    dataset = _built(component, cfg, tokenizer, built, caller_globals)
    if isinstance(dataset, StreamedDataset):
        raise dataset.has_no_numbers()
    if isinstance(dataset, Mapping) or not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise _no_dataset(dataset, cfg["_component_"])
    return dataset


def _no_dataset(given: Any, name: Any) -> ConfigError:
    """The error of a component that builds no data set; for the function that gives a section, with the builder."""
    told = (
        f"{name} gives an object of the type {type(given).__name__}, and a data set has `len` and `[]` with a number."
    )
    if not isinstance(given, Mapping) or "_component_" not in given:
        return ConfigError(told)
    return ConfigError(
        f"{told} It is a section, to look at or to write into a config; of "
        "dataset_info's, torchpipe.datasets.dataset_info_dataset builds the data set."
    )


def _built(
    component: Any,
    cfg: Mapping[Any, Any],
    tokenizer: Any,
    built: Callable[[Any], Any],
    caller_globals: Mapping[str, Any],
) -> Any:
    """What the component of a section gives, with the data sets or the tokenizer that it is handed."""
    from torchpipe.config import instantiate  # brings omegaconf, which a plain DataLoader does not need

    parameters = list(inspect.signature(component).parameters.values())
    sections = {
        name: cfg[name] for name in getattr(component, "dataset_arguments", ()) if _holds_section(cfg.get(name))
    }
    if sections:
        arguments = _of_sections(component, sections, built)
        if component is PackedDataset:
            said = {
                "max_seq_len": getattr(tokenizer, "max_seq_len", None),
                "padding_idx": getattr(tokenizer, "pad_id", 0),
            }
            arguments |= {name: value for name, value in said.items() if name not in cfg and value is not None}
        return instantiate(cfg, caller_globals=caller_globals, **arguments)
    if not parameters or parameters[0].kind not in _POSITIONAL:
        name = "tokenizer" if any(one.name == "tokenizer" for one in parameters) else "model_transform"
        return instantiate(cfg, caller_globals=caller_globals, **{name: tokenizer})
    if parameters[0].name in cfg:
        return instantiate(cfg, caller_globals=caller_globals)
    return instantiate(cfg, tokenizer, caller_globals=caller_globals)


def instantiate_held_out(
    cfg: Mapping[Any, Any] | Sequence[Mapping[Any, Any]] | None,
    tokenizer: Any,
    *,
    caller_globals: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The held-out data sets of a config's section by name, to measure the loss on each.

    Args:
        cfg: a dataset section, whose data set is then called "held-out"; or, for several losses, a mapping of names to
            sections, or a list in which every entry has a ``name`` and a ``dataset``. None: there are none.
        tokenizer, caller_globals: see :func:`instantiate_dataset`.

    Raises:
        ConfigError: as :func:`instantiate_dataset`; a list has weights, which have no meaning here; rows are tokenised
            while they are trained on (``start: by_shard``).

    >>> instantiate_held_out(None, None)
    {}
    """
    if cfg is None:
        return {}
    if caller_globals is None:
        caller_globals = sys._getframe(1).f_globals
    sections: dict[Any, Any] = {"held-out": cfg}
    if isinstance(cfg, Mapping) and "_component_" not in cfg:
        sections = dict(cfg)
    elif isinstance(cfg, Sequence) and not isinstance(cfg, str) and is_mix(cfg):
        given = MixSections.of(cfg)
        if given.weights is not None or given.epochs is not None:
            raise ConfigError("Held-out rows are all looked at once: weight and epochs have no effect. Leave them out.")
        sections = dict(zip(given.names, given.sections, strict=True))
    built = {
        str(name): instantiate_dataset(section, tokenizer, caller_globals=caller_globals)
        for name, section in sections.items()
    }
    if any(isinstance(rows, GrowingPackedDataset) for rows in built.values()):
        raise ConfigError("dataset_val has start: by_shard, and held-out rows are needed as a whole. Leave it out.")
    return built


def describe_mix(dataset: Any) -> str:
    """One line on the shares of a mix, also of one that was packed; "" where nothing is mixed."""
    inner = dataset.samples if isinstance(dataset, PackedDataset) else dataset
    return inner.describe() if isinstance(inner, MixDataset) else ""


def describe_packing(dataset: Any) -> str:
    """One line on the packs of a data set, of each part where several are joined; "" where it is not packed."""
    if isinstance(dataset, JoinedDataset):
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


def _holds_section(value: Any) -> bool:
    """Whether an argument is a dataset section, or a list or mapping with one in it; rows and data sets are neither."""
    if isinstance(value, Mapping):
        return "_component_" in value or any(_holds_section(one) for one in value.values())
    return isinstance(value, Sequence) and not isinstance(value, str) and any(map(_holds_section, value))


def _of_sections(component: Any, sections: Mapping[str, Any], built: Callable[[Any], Any]) -> dict[str, Any]:
    """The arguments of a component whose data sets are sections."""
    if component is MixDataset:
        return MixSections.of(sections["datasets"]).arguments(built)
    if component is ConcatDataset:
        return {"datasets": [built(section) for section in sections["datasets"]]}
    return {name: built(section) for name, section in sections.items()}
