"""A recipe's own list of keys, held against a config."""

from collections.abc import Iterable

from omegaconf import DictConfig

from torchpipe._suggest import did_you_mean, listed
from torchpipe.errors import ConfigError


def check_keys(cfg: DictConfig, *, known: Iterable[str], required: Iterable[str] = ()) -> None:
    """Refuses a config with a top-level key that the recipe does not read, or without one that it needs.

    Raises:
        ConfigError: one sentence a key; an unknown one is answered with the nearest known name.
    """
    known = list(known)
    faults = [f"{key!r} is not a key of this recipe.{did_you_mean(key, known)}" for key in cfg if key not in known]
    missing = [key for key in required if cfg.get(str(key)) is None]
    if missing:
        faults.append(f"The config has no {listed(missing)}, which the recipe needs.")
    if faults:
        raise ConfigError(" ".join(faults) + f" The recipe reads {listed(known)}.")
