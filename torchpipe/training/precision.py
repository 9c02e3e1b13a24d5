"""The number format that a model is trained in."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from torchpipe._suggest import did_you_mean, listed
from torchpipe.errors import ConfigError

PRECISION_STR_TO_DTYPE: dict[str, torch.dtype] = {
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp32": torch.float32,
    "fp64": torch.float64,
}
"""The words of configs."""


def get_dtype(dtype: str | torch.dtype | None = None, device: torch.device | None = None) -> torch.dtype:
    """The torch type of a word: ``fp16``, ``bf16``, ``fp32`` or ``fp64``; None is float32.

    Args:
        dtype: the word, or the type itself.
        device: which has to know the type. None: the accelerator, if there is one.

    Raises:
        ConfigError: there is no such word, or the device computes no bfloat16.

    >>> get_dtype("bf16", torch.device("cpu"))
    torch.bfloat16
    """
    if dtype is None:
        return torch.float32
    found = PRECISION_STR_TO_DTYPE.get(dtype) if isinstance(dtype, str) else dtype
    if found not in PRECISION_STR_TO_DTYPE.values():
        near = did_you_mean(str(dtype), PRECISION_STR_TO_DTYPE)
        raise ConfigError(f"dtype is {dtype!r}. It can be {listed(PRECISION_STR_TO_DTYPE)}.{near}")
    if found == torch.bfloat16 and not _has_bf16(device):
        raise ConfigError(f"dtype is bf16, and this {_kind(device)} computes no bfloat16. Set dtype=fp32.")
    assert found is not None
    return found


def training_dtype(dtype: str | torch.dtype | None, device: torch.device) -> torch.dtype:
    """The torch type that a model is trained in; see :func:`get_dtype`.

    Raises:
        ConfigError: it can't be trained in. float16 is refused: small gradients become 0 in it unless the loss is
            scaled, which recipes do not do.

    >>> training_dtype("fp32", torch.device("cpu"))
    torch.float32
    """
    found = get_dtype(dtype, device)
    if found == torch.float16:
        raise ConfigError(
            "dtype is fp16, in which small gradients become 0, and the loss is not scaled to keep them. Set dtype=bf16 "
            "or dtype=fp32."
        )
    return found


def _kind(device: torch.device | None) -> str:
    if device is not None:
        return device.type
    found = torch.accelerator.current_accelerator()
    return "cpu" if found is None else found.type


def _has_bf16(device: torch.device | None) -> bool:
    kind = _kind(device)
    if kind == "cuda":
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    if kind == "xpu":
        return torch.xpu.is_available() and torch.xpu.is_bf16_supported()
    return True


@contextmanager
def set_default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """A context in which torch makes tensors of numbers in this type; the one before is put back.

    >>> with set_default_dtype(torch.bfloat16):
    ...     torch.zeros(1).dtype
    torch.bfloat16
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def validate_expected_param_dtype(
    named_params: Iterable[tuple[str, nn.Parameter]],
    dtype: torch.dtype,
    exclude_param_names: Sequence[str] | None = None,
) -> None:
    """Refuses parameters of another type.

    Args:
        named_params: of ``model.named_parameters()``.
        dtype: that they should have.
        exclude_param_names: parameters with one of these in their names may have any type.

    Raises:
        ConfigError: one has another type.
    """
    for name, parameter in named_params:
        if parameter.dtype != dtype and not any(part in name for part in exclude_param_names or ()):
            raise ConfigError(f"Parameter {name} is {parameter.dtype}, and {dtype} was expected.")
