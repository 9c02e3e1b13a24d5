"""Less memory for more time: what a layer computed is forgotten, and computed again when gradients need it."""

from collections.abc import Callable, Set
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from torchpipe.errors import ConfigError

WrapPolicy = Set[type[nn.Module]] | Callable[..., bool]
"""Which modules: those of some types, or a policy as torch's FSDP takes it, called as
``policy(module=..., recurse=..., nonwrapped_numel=...)``."""


def set_activation_checkpointing(model: nn.Module, auto_wrap_policy: WrapPolicy, **kwargs: Any) -> None:
    """Changes a model so that modules in it keep their inputs alone while it trains, and are computed a second time.

    The loss and the gradients stay the same to the bit: dropout draws the same numbers again. Modules are changed in
    place and not wrapped, so that parameters keep their names. Without gradients nothing is computed twice.

    Args:
        model: the model; it is never taken as a whole.
        auto_wrap_policy: the types of the modules that are taken, ``{TransformerSelfAttentionLayer}``; or a function
            that says of each module, ``recurse=True``, whether to look into it and, ``recurse=False``, whether to take
            it (``nonwrapped_numel``: its parameters that no module inside it has taken).
        kwargs: for ``torch.utils.checkpoint.checkpoint``.

    Raises:
        ConfigError: the policy takes no module.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    >>> set_activation_checkpointing(model, {nn.Linear})
    >>> [name for name, _ in model.named_parameters()]
    ['0.weight', '0.bias']
    """
    policy = partial(_is_of_types, tuple(auto_wrap_policy)) if isinstance(auto_wrap_policy, Set) else auto_wrap_policy
    options = {"use_reentrant": False, **kwargs}
    taken = _take_inside(model, policy)
    if not taken:
        asked = sorted(kind.__name__ for kind in auto_wrap_policy) if isinstance(auto_wrap_policy, Set) else policy
        raise ConfigError(f"Activation checkpointing takes {asked}, and {type(model).__name__} has no such module.")
    for module in taken:
        module.forward = partial(_run, module.forward, options)


def _is_of_types(
    kinds: tuple[type[nn.Module], ...], *, module: nn.Module, recurse: bool, nonwrapped_numel: int
) -> bool:
    return recurse or isinstance(module, kinds)


def _take_inside(module: nn.Module, policy: Callable[..., bool]) -> list[nn.Module]:
    """The modules in a module that a policy takes, inner ones first."""
    size = _size(module)
    if not policy(module=module, recurse=True, nonwrapped_numel=size):
        return []
    taken: list[nn.Module] = []
    for child in module.children():
        inside = _take_inside(child, policy)
        left = _size(child) - sum(_size(one) for one in _outermost(inside))
        if policy(module=child, recurse=False, nonwrapped_numel=left):
            inside.append(child)
        taken += inside
    return taken


def _outermost(modules: list[nn.Module]) -> list[nn.Module]:
    inner = {id(part) for module in modules for part in module.modules() if part is not module}
    return [module for module in modules if id(module) not in inner]


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _run(forward: Callable[..., Any], options: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    return checkpoint(partial(forward, **kwargs), *args, **options)
