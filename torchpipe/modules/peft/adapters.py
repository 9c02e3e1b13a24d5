"""A model's adapters: finding them, training them alone, switching them off, filling them."""

import threading
from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from torch import nn

from torchpipe._suggest import did_you_mean
from torchpipe.errors import CheckpointError, ConfigError
from torchpipe.modules.peft.dora import DoRALinear
from torchpipe.modules.peft.lora import LoRALinear


@runtime_checkable
class AdapterModule(Protocol):
    """A module with parameters of an adapter. One of your own needs no more than this method."""

    def adapter_params(self) -> list[str]:
        """Names of the adapter's parameters, as ``named_parameters`` of this module has them."""
        ...


@runtime_checkable
class _Switchable(AdapterModule, Protocol):
    """An adapter that can be switched off."""

    disabled: bool


_lock = threading.Lock()
_switched_off: WeakKeyDictionary[_Switchable, tuple[int, bool]] = WeakKeyDictionary()
"""For each adapter the blocks that it is off in, and whether it was off before the first of them."""


def get_adapter_params(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters of every :class:`AdapterModule` in ``model``, by their names in the model; empty without one.

    Raises:
        ConfigError: an adapter names a parameter that it does not have.

    >>> list(get_adapter_params(nn.Sequential(LoRALinear(4, 4, rank=2, alpha=4.0))))
    ['0.lora_a.weight', '0.lora_b.weight']
    """
    of_adapters: set[int] = set()
    for module in model.modules():
        if isinstance(module, AdapterModule):
            own = dict(module.named_parameters())
            for name in module.adapter_params():
                if name not in own:
                    raise ConfigError(
                        f"{type(module).__name__}.adapter_params() has {name!r}, which is none of its parameters."
                        f"{did_you_mean(name, own)}"
                    )
                of_adapters.add(id(own[name]))
    # By identity: a parameter of two modules has the one name that named_parameters gives it.
    return {name: parameter for name, parameter in model.named_parameters() if id(parameter) in of_adapters}


def set_trainable_params(model: nn.Module, adapter_params: Collection[str]) -> None:
    """Trains the named parameters, and freezes every other.

    Args:
        model: changed in place.
        adapter_params: names in the model, or a dict with such names, as of :func:`get_adapter_params`.

    Raises:
        ConfigError: the model has no parameter of such a name; nothing is changed.
    """
    parameters = dict(model.named_parameters())
    for name in adapter_params:
        if name not in parameters:
            raise ConfigError(f"The model has no parameter {name!r} to train.{did_you_mean(name, parameters)}")
    for name, parameter in parameters.items():
        parameter.requires_grad_(name in adapter_params)


@contextmanager
def disable_adapter(model: nn.Module) -> Generator[None, None, None]:
    """Inside the ``with`` block the model is its base: each adapter that has a ``disabled`` attribute has it True.

    After it, also after an exception, each is as it was. Blocks may stand in one another, and overlap in several
    threads: the adapters are off for all of them until the last block ends.

    >>> layer = LoRALinear(4, 4, rank=2, alpha=4.0)
    >>> with disable_adapter(layer):
    ...     layer.disabled
    True
    >>> layer.disabled
    False
    """
    adapters: list[_Switchable] = [module for module in model.modules() if isinstance(module, _Switchable)]
    with _lock:
        for adapter in adapters:
            num_blocks, before = _switched_off.get(adapter, (0, adapter.disabled))
            _switched_off[adapter] = num_blocks + 1, before
            adapter.disabled = True
    try:
        yield
    finally:
        with _lock:
            for adapter in adapters:
                num_blocks, before = _switched_off.pop(adapter)
                if num_blocks > 1:
                    _switched_off[adapter] = num_blocks - 1, before
                else:
                    adapter.disabled = before


def initialize_adapters(model: nn.Module) -> None:
    """Fills every LoRA and DoRA adapter in place with fresh values, under which the model is its base.

    For a model built on the meta device: call it after ``model.to_empty(device=...)`` and after the base weights are
    loaded, for DoRA's magnitudes come from them. ``torch.manual_seed`` decides the values.

    Raises:
        CheckpointError: an adapter is on the meta device.
    """
    for name, module in model.named_modules():
        if isinstance(module, LoRALinear):
            if module.lora_a.weight.is_meta:
                raise CheckpointError(
                    f"{name} is on the meta device, where there is nothing to fill. Call model.to_empty(device=...) "
                    "first."
                )
            module.initialize_parameters()
    initialize_dora_magnitude(model)


def initialize_dora_magnitude(model: nn.Module) -> None:
    """Sets every DoRA magnitude to the norms of its present weight's rows, so that it changes nothing.

    Whoever loads base weights calls it, unless the adapters are loaded too. A model without DoRA stays as it is.

    Raises:
        CheckpointError: a weight is on the meta device.
    """
    for module in model.modules():
        if isinstance(module, DoRALinear):
            module.initialize_dora_magnitude()
