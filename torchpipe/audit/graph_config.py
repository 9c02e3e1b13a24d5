"""The graph of a config, built as a run builds it, to be looked at."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from omegaconf import OmegaConf

from torchpipe.config import Setting, instantiate, read_settings
from torchpipe.errors import ConfigError
from torchpipe.pipeline.loader import GrainDataLoader
from torchpipe.pipeline.recipe_graph import graph_loader

SECTION = "dataloader"
"""The key of a graph in a config."""

SETTINGS: dict[str, Setting] = {
    "max_context_length": Setting(None, at_least=1, can_be_null=True),
    "num_tokens_per_batch": Setting(None, at_least=1, can_be_null=True),
}
"""What decides the rows of a graph beside its section. The ``sft`` recipe has the same."""


def is_of_graph(cfg: Mapping[Any, Any], section: str) -> bool:
    """Whether a section is the config's graph, or may be a node of it.

    >>> is_of_graph({"dataloader": {}}, "dataset"), is_of_graph({"dataset": {}, "dataloader": {}}, "dataset")
    (True, False)
    """
    return cfg.get(SECTION) is not None and (section == SECTION or cfg.get(section) is None)


def built_graph(cfg: Mapping[Any, Any], *, world_size: int = 1) -> tuple[GrainDataLoader, Any]:
    """The loader of a config's graph for the first of so many ranks, and its tokenizer. No model is built.

    Args:
        cfg: a whole config, with a section ``dataloader``.
        world_size: ranks.

    Raises:
        ConfigError: a section is missing, or can't be built.
        Exception: a bad row's own error, which names it.
    """
    if cfg.get("tokenizer") is None:
        raise ConfigError("The config has no tokenizer section, and the rows of a graph are made with it.")
    tokenizer = instantiate(cfg["tokenizer"], caller_globals={})
    given = read_settings(OmegaConf.create({key: cfg[key] for key in SETTINGS if key in cfg}), SETTINGS)
    settings = SimpleNamespace(**{SECTION: cfg[SECTION]}, **{key: given[key] for key in SETTINGS})
    loader = graph_loader(settings, tokenizer, rank=0, world_size=world_size)
    assert loader is not None  # for there is the section
    return loader, tokenizer
