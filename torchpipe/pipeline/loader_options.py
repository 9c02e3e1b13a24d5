"""What the options of a loader may be."""

from pathlib import PurePath
from typing import Any, Literal, get_args

from torchpipe._suggest import listed
from torchpipe.errors import ConfigError

GraphBalance = Literal["none", "within_step"]
"""How the rows of a step go to ranks; of :data:`~torchpipe.loading.balance.Balance`."""


_MOST_PROCESSES = 4_096


def check_options(config: Any) -> None:
    """Refuses options of a :class:`~torchpipe.pipeline.GrainDataLoader` that can't be, before anything is read.

    Raises:
        ConfigError: one of them can't be.
    """
    for name, least in (
        ("num_prefetch_batches", 0),
        ("num_workers", 0),
        ("num_epochs", 1),
        ("num_logical_shards", 1),
        ("num_proc", 1),
    ):
        value = getattr(config, name)
        if value is None and name in ("num_epochs", "num_logical_shards", "num_proc"):
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ConfigError(f"{name} is {value!r}. Give a whole number, {least} or more.")
        if name in ("num_workers", "num_proc") and value > _MOST_PROCESSES:
            raise ConfigError(f"{name} is {value!r}. These are processes of this machine: {_MOST_PROCESSES:,} at most.")
    if not isinstance(config.cache_dir, str | PurePath | None):
        raise ConfigError(f"cache_dir is {config.cache_dir!r}. Give the path of a folder, or leave it out.")
    for name, allowed in (("shuffle", (True, False)), ("repeat", (True, False)), ("planned", (True, False, None))):
        if not any(getattr(config, name) is one for one in allowed):
            raise ConfigError(f"{name} is {getattr(config, name)!r}. It is one of {listed(map(str, allowed))}.")
    if config.balance not in get_args(GraphBalance):
        why = "'steps' has to know how many rows a step has, and a graph's order of rows doesn't depend on that. "
        raise ConfigError(
            f"balance is {config.balance!r}. {why if config.balance == 'steps' else ''}"
            f"It is one of {listed(get_args(GraphBalance))}."
        )
    if config.read_options is not None and not hasattr(config.read_options, "num_threads"):
        raise ConfigError(f"read_options is {config.read_options!r}. Give a grain.ReadOptions, or leave it out.")
    if isinstance(config.collator, type) or not callable(getattr(config.collator, "build", None)):
        raise ConfigError(
            f"collator is {config.collator!r}. Give the Config of a Collator, such as TextCollator.Config()."
        )
    if isinstance(config.dataset, type) or not callable(getattr(config.dataset, "build", None)):
        raise ConfigError(
            f"dataset is a {type(config.dataset).__name__}. Give the uppermost node of a graph, such as "
            "SingleDatasetConfig(source=..., processor=...)."
        )
    given = config.allow_changed
    if isinstance(given, str) or not hasattr(given, "__iter__") or not all(isinstance(name, str) for name in given):
        raise ConfigError(f"allow_changed is {config.allow_changed!r}. Give a list of names.")
