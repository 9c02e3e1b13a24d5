"""The graph of a recipe's config: its section ``dataloader``, and the settings that go with it."""

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

from torchpipe.config.instantiate import instantiate
from torchpipe.errors import ConfigError
from torchpipe.pipeline.loader import GrainDataLoader

_SAID_BY_THE_SECTION = (
    *("num_workers", "pin_memory", "prefetch_factor", "read_ahead"),
    *("batch_size", "epochs", "max_steps_per_epoch", "shuffle", "balance", "collate_fn", "static_shapes"),
)


def check_graph_settings(cfg: Container[str], settings: Any) -> None:
    """Refuses settings that don't go with ``dataloader``, before anything is read.

    Args:
        cfg: the config as it was written.
        settings: with the recipe's defaults.

    Raises:
        ConfigError: there are both ``dataset`` and ``dataloader`` or neither, a setting has no effect, or the run has
            no end.
    """
    if (settings.dataset is None) == (settings.dataloader is None):
        raise ConfigError("The rows come from dataset, or from the graph of dataloader. Give one of the two sections.")
    if settings.dataloader is None:
        return
    if "_component_" not in settings.dataloader:
        raise ConfigError(
            "dataloader has no _component_, such as torchpipe.pipeline.GrainDataLoader.Config. Of torchtune's section "
            "the keys stand at the top here: shuffle, collate_fn, num_workers, pin_memory."
        )
    if said := [key for key in _SAID_BY_THE_SECTION if key in cfg]:
        raise ConfigError(f"{said[0]} has no effect beside dataloader, whose section says such things. Leave it out.")
    ends = settings.max_steps or settings.dataloader.get("num_epochs")
    if not ends and settings.dataloader.get("repeat", True):
        raise ConfigError("The run has no end: dataloader.repeat is true. Set max_steps, or dataloader.num_epochs.")


def graph_loader(
    settings: Any, tokenizer: Any, *, rank: int, world_size: int, state: Mapping[str, Any] | None = None
) -> GrainDataLoader | None:
    """The loader of the section ``dataloader`` for one rank; None where there is no such section.

    Args:
        settings: of a recipe. ``max_context_length`` is the tokenizer's ``max_seq_len`` unless it is given, and
            ``num_tokens_per_batch`` is as large unless it is given.
        tokenizer: of the processors.
        rank, world_size: data-parallel.
        state: of the checkpoint that a run goes on from, whose loader keeps its ``num_logical_shards``.

    Raises:
        ConfigError: the section builds no loader, or no length is known.
    """
    if settings.dataloader is None:
        return None
    longest = settings.max_context_length or getattr(tokenizer, "max_seq_len", None)
    if longest is None:
        raise ConfigError("max_context_length is not set, and the tokenizer has no max_seq_len. Set one of them.")
    config = instantiate(settings.dataloader)
    if not isinstance(config, GrainDataLoader.Config):
        raise ConfigError(
            f"dataloader builds a {type(config).__name__}. Give it _component_: "
            "torchpipe.pipeline.GrainDataLoader.Config."
        )
    if config.num_logical_shards is None:
        config = replace(config, num_logical_shards=(state or {}).get("loader", {}).get("num_logical_shards"))
    return config.build(
        tokenizer=tokenizer,
        max_context_length=longest,
        num_tokens_per_batch=settings.num_tokens_per_batch or longest,
        dp_rank=rank,
        dp_world_size=world_size,
    )
