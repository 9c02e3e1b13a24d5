"""Adapters for a decoder that is already built."""

from torch import nn

from torchpipe.errors import ConfigError
from torchpipe.modules.peft.config import MLP_MODULES, LoRAConfig
from torchpipe.modules.peft.dora import DoRALinear
from torchpipe.modules.peft.lora import LoRALinear
from torchpipe.modules.tied_linear import TiedLinear
from torchpipe.modules.transformer import TransformerDecoder

TIED_OUTPUT = (
    "apply_lora_to_output is True, and the output projection is the token embedding's weight, which can't be adapted "
    "for one and not the other. Leave it False, or build the model with tie_word_embeddings=False."
)


def add_lora(model: TransformerDecoder, config: LoRAConfig) -> None:
    """Puts adapters beside the model's matrices, and freezes all that it had before.

    Each ``nn.Linear`` that the config names is replaced by a :class:`LoRALinear` or :class:`DoRALinear` that holds the
    very same parameters; no weight is copied. ``model.lora`` is the config from then on. Works on the meta device, see
    :func:`~torchpipe.modules.peft.initialize_adapters`.

    Args:
        model: changed in place.
        config: which matrices, and the adapters' sizes.

    Raises:
        ConfigError: the model has adapters already, its output projection is tied, or a matrix is missing or is no
            ``nn.Linear``. Nothing is changed then.
    """
    if model.lora is not None:
        raise ConfigError("The model has LoRA adapters already. Merge them first (merge_lora), or build it without.")
    if config.output and isinstance(model.output, TiedLinear):
        raise ConfigError(TIED_OUTPUT)
    linears = {path: _linear(model, path) for path in _paths(model, config)}
    if not linears:
        raise ConfigError("The model has no layers, so there is nothing that adapters could be added to.")
    model.requires_grad_(False)
    kind = DoRALinear if config.use_dora else LoRALinear
    for path, linear in linears.items():
        adapted = kind.from_linear(linear, rank=config.rank, alpha=config.alpha, dropout=config.dropout)
        model.set_submodule(path, adapted)
    model.lora = config


def _paths(model: TransformerDecoder, config: LoRAConfig) -> list[str]:
    """Paths of the modules that get an adapter, from the first layer to the output."""
    paths: list[str] = []
    for index in range(len(model.layers)):
        paths += [f"layers.{index}.attn.{name}" for name in config.attn_modules]
        if config.mlp:
            mlp = model.get_submodule(f"layers.{index}.mlp")
            names = [name for name in MLP_MODULES if getattr(mlp, name, None) is not None]  # w3 is there if gated
            paths += [f"layers.{index}.mlp.{name}" for name in names]
    return [*paths, "output"] if config.output else paths


def _linear(model: TransformerDecoder, path: str) -> nn.Linear:
    try:
        module = model.get_submodule(path)
    except AttributeError as error:
        raise ConfigError(f"The model has no module {path}, which was to have a LoRA adapter.") from error
    if not isinstance(module, nn.Linear):
        raise ConfigError(f"{path} is a {type(module).__name__}, and a LoRA adapter stands beside an nn.Linear.")
    return module
