"""A model whose layers are compiled."""

import os

from torch import nn

from torchpipe.errors import ConfigError


def compile_layers(model: nn.Module) -> None:
    """Compiles each layer of a decoder, in place: parameters keep their names.

    One layer is compiled for all of them, which takes a fraction of the time that the whole model would. The
    environment's TORCH_COMPILE_BACKEND names another backend than torch's own, "inductor".

    Raises:
        ConfigError: the model has no ``layers``.

    >>> compile_layers(nn.Linear(1, 1))
    Traceback (most recent call last):
    torchpipe.errors.ConfigError: compile is true, and Linear has no layers to compile. Set compile=false.
    """
    layers = getattr(model, "layers", None)
    if not isinstance(layers, nn.ModuleList | nn.Sequential):
        raise ConfigError(f"compile is true, and {type(model).__name__} has no layers to compile. Set compile=false.")
    for layer in layers:
        layer.compile(backend=os.environ.get("TORCH_COMPILE_BACKEND", "inductor"))
