"""The model of a run, with the weights that training begins with."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from torchpipe.training.precision import set_default_dtype


def build_model(
    build: Callable[[], nn.Module],
    *,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    weights: Any = None,
    tokenizer: Any = None,
) -> nn.Module:
    """The model on ``device`` in ``dtype``, with the weights that ``weights`` loads; None: fresh ones.

    Where weights are loaded, none are drawn first and no second copy is held: the model is built without memory, and
    only adapters are filled as fresh ones are.

    Args:
        build: makes the model.
        weights: a checkpointer, such as :class:`~torchpipe.training.FullModelHFCheckpointer`.
        tokenizer: whose ids the model has to know.
    """
    with set_default_dtype(dtype):
        if weights is None:
            return build().to(device)
        with torch.device("meta"):
            model = build()
        model.to_empty(device=device)
        for module in model.modules():
            for fill in ("rope_init", "initialize_parameters"):
                if hasattr(module, fill):
                    getattr(module, fill)()
        weights.load(model, tokenizer=tokenizer)
    return model


def describe_parameters(model: nn.Module) -> str:
    """One line: how many parameters the model has, and how many of them are trained.

    >>> describe_parameters(nn.Linear(100, 10))
    'model: 1,010 parameters, all trained, torch.float32'
    """
    parameters = list(model.parameters())
    total = sum(parameter.numel() for parameter in parameters)
    trained = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
    share = "all trained" if trained == total else f"{trained:,} of them trained ({trained / total:.2%})"
    return f"model: {total:,} parameters, {share}, {parameters[0].dtype}"
