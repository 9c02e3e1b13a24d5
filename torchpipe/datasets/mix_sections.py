"""Sections of data sets that are mixed, as a config writes them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.node_names import config_name, node_names
from torchpipe.errors import ConfigError
from torchpipe.sources.file_source import names_files

_KEYS = ("weight", "name", "epochs")
"""What an entry says of its place in the mix. The rest is the data set's section."""
_OF_THE_MIX = ("by", "stop", "temperature", "num_items")
"""Options of a MixDataset that no data set has."""


def is_mix(sections: Sequence[Any]) -> bool:
    """Whether a list of dataset sections says how to mix them: one has a ``weight``, or its section in ``dataset``."""
    return any(isinstance(one, Mapping) and ("weight" in one or _is_wrapped(one)) for one in sections)


@dataclass(frozen=True, kw_only=True)
class MixSections:
    """The sections of a mix and what is said of each.

    Attributes:
        sections: of the data sets.
        names: of the data sets; without a ``name``, the component and a hash of the section.
        weights: None where no entry has one.
        epochs: None where no entry has them.
    """

    sections: list[Any]
    names: list[str]
    weights: list[float] | None
    epochs: list[float | None] | None

    @classmethod
    def of(cls, given: Mapping[Any, Any] | Sequence[Mapping[Any, Any]]) -> "MixSections":
        """What a config has: names to sections, or a list of entries.

        An entry is a dataset section with ``weight``, ``name`` and ``epochs`` among its keys; or it has these and the
        section in ``dataset``.

        Raises:
            ConfigError: an entry is neither, only some have a weight, or it can't be told what ``name`` means.

        >>> MixSections.of([{"dataset": {"_component_": "a"}, "weight": 2, "name": "math"}]).names
        ['math']
        """
        if isinstance(given, Mapping):
            return cls(sections=list(given.values()), names=[str(name) for name in given], weights=None, epochs=None)
        entries = [_entry(place, one) for place, one in enumerate(given)]
        sections = [section for section, _ in entries]
        said = [place for _, place in entries]
        weights: list[Any] = [one.get("weight") for one in said]
        if None in weights and any(weight is not None for weight in weights):
            raise ConfigError(
                f"Number {weights.index(None)} of the list of data sets has no weight, and others have one. Give "
                "each a weight, or none."
            )
        epochs = [one.get("epochs") for one in said]
        return cls(
            sections=sections,
            names=node_names([one.get("name") for one in said], [_stands_for(section) for section in sections]),
            weights=None if None in weights else weights,
            epochs=epochs if any(one is not None for one in epochs) else None,
        )

    def arguments(self, built: Callable[[Any], Any]) -> dict[str, Any]:
        """Keywords of a :class:`~torchpipe.datasets.MixDataset`; those that nothing is said of are left out.

        Args:
            built: a section to its data set.
        """
        said = {"weights": self.weights, "epochs": self.epochs}
        return {
            "datasets": [built(section) for section in self.sections],
            "names": self.names,
            **{name: values for name, values in said.items() if values is not None},
        }


def _is_wrapped(entry: Mapping[Any, Any]) -> bool:
    return "dataset" in entry and "_component_" not in entry


def _entry(place: int, entry: Any) -> tuple[Any, dict[str, Any]]:
    """The dataset section of an entry, and what it says of its place in the mix."""
    if not isinstance(entry, Mapping) or not ("_component_" in entry or _is_wrapped(entry)):
        raise ConfigError(
            f"Number {place} of the list of data sets is a {type(entry).__name__} without a _component_. Give a "
            "dataset section with a weight, or {dataset: <section>, weight: ..., name: ...}."
        )
    said = {key: entry[key] for key in _KEYS if entry.get(key) is not None}
    rest = {key: value for key, value in entry.items() if key not in _KEYS}
    if "_component_" not in entry:
        if unknown := [key for key in rest if key != "dataset"]:
            raise ConfigError(
                f"Number {place} of the list of data sets has {str(unknown[0])!r} beside dataset. It takes dataset, "
                f"{listed(_KEYS)}.{did_you_mean(str(unknown[0]), _KEYS)} Options of the data set stand in dataset."
            )
        return rest["dataset"], said
    if whole := [key for key in _OF_THE_MIX if key in entry]:
        raise ConfigError(
            f"Number {place} of the list of data sets has {whole[0]!r}, which is said once of the whole mix. Write the "
            "mix as {_component_: torchpipe.datasets.MixDataset, datasets: {<name>: <section>, ...}, weights: {<name>: "
            f"..., ...}}, {whole[0]}: ...}} (docs/mixing.md)."
        )
    if "name" in said and not names_files(entry.get("source")):  # files have no configurations
        raise ConfigError(
            f"Number {place} of the list of data sets has name: {said['name']}, which may be the name in the mix, or a "
            "configuration for load_dataset. Write {name: <name in the mix>, weight: ..., dataset: {_component_: ..., "
            "name: <configuration>}}, or leave the one out that you don't mean."
        )
    return rest, said


def _stands_for(section: Any) -> str:
    return config_name(section) if isinstance(section, Mapping) else "datasets"
