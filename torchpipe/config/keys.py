"""A recipe's own table of keys, held against a config."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

from torchpipe._suggest import did_you_mean, listed
from torchpipe.errors import ConfigError


@dataclass(frozen=True)
class Setting:
    """One top-level key of a recipe.

    Attributes:
        default: the value where the config has none; ``...``: the config has to give one. Where it is True or False,
            the key holds one of these, or null.
        at_least: the key holds a whole number, this or more.
        above: the key holds a number, whole or not, above this; ``inf`` is one.
        can_be_null: whether null is a value too.
    """

    default: Any = ...
    at_least: int | None = None
    above: float | None = None
    can_be_null: bool = False

    def fault_of(self, value: Any) -> str | None:
        """What is wrong with a value, as the end of a sentence; None if nothing is."""
        if value is None and self.can_be_null:
            return None
        if isinstance(self.default, bool) and value is not None and not isinstance(value, bool):
            return "Give true or false."  # any other text, "flase" too, would count as true
        or_null = ", or null to do without" if self.can_be_null else ""
        if self.at_least is not None and not (type(value) is int and value >= self.at_least):  # True is an int too
            return f"Give a whole number, {self.at_least} or more{or_null}."
        if self.above is not None and not _number(value) > self.above:
            return f"Give a number above {self.above}{or_null}."
        return None


def _number(value: Any) -> float:
    """The number that a value is; NaN, which is above nothing, if it is none. YAML's own word for inf is .inf."""
    return float(value) if type(value) in (int, float) or value == "inf" else math.nan


def read_settings(cfg: DictConfig, table: Mapping[str, Setting]) -> DictConfig:
    """The config with the table's defaults filled in.

    Raises:
        ConfigError: a key is not in the table (the nearest name is given), one is missing or still ``???``, a
            number is none or too small, or a switch is neither true nor false.
    """
    unknown = [f"{key!r} is not a key of this recipe.{did_you_mean(key, table)}" for key in cfg if key not in table]
    if unknown:
        raise ConfigError(f"{' '.join(unknown)} The recipe reads {listed(table)}.")
    settings = cfg.copy()
    for key, setting in table.items():
        if OmegaConf.is_missing(settings, key):
            raise ConfigError(f"{key} is still to be given: write it into the file, or {key}=... on the command line.")
        if key not in settings:
            settings[key] = None if setting.default is ... else setting.default
        if setting.default is ... and settings[key] is None:
            raise ConfigError(f"The config has no {key!r}, which the recipe needs.")
        if fault := setting.fault_of(settings[key]):
            raise ConfigError(f"{key} is {settings[key]!r}. {fault}")
    return settings
