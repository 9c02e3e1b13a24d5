"""State dicts of models with adapters."""

from collections.abc import Collection, MutableMapping, Sequence
from typing import Any

from torchpipe._suggest import listed
from torchpipe.errors import CheckpointError
from torchpipe.modules.peft.config import check_adapter, get_lora_module_names
from torchpipe.modules.peft.merging import merged_weight

LORA_A, LORA_B, MAGNITUDE = ".lora_a.weight", ".lora_b.weight", ".magnitude"
ADAPTER_ENDINGS = (LORA_A, LORA_B, MAGNITUDE)
"""What the names of an adapter's tensors end in."""


def get_adapter_state_dict(state_dict: dict[str, Any], device: str | None = "cpu") -> dict[str, Any]:
    """The adapters' tensors of a model's state dict, on ``device``; None leaves each where it is.

    >>> import torch
    >>> get_adapter_state_dict({"q_proj.weight": torch.ones(1), "q_proj.lora_a.weight": torch.ones(1)})
    {'q_proj.lora_a.weight': tensor([1.])}
    """
    adapters = {name: tensor for name, tensor in state_dict.items() if name.endswith(ADAPTER_ENDINGS)}
    return adapters if device is None else {name: tensor.to(device) for name, tensor in adapters.items()}


def get_merged_lora_ckpt(state_dict: MutableMapping[str, Any], rank: int, alpha: float) -> MutableMapping[str, Any]:
    """The same dict, with each adapter merged into its base weight and taken out.

    The dict is changed, and no tensor in it: a model whose state dict it is keeps its weights. See
    :func:`~torchpipe.modules.peft.merging.merged_weight` for the arithmetic.

    Args:
        state_dict: of a model with adapters; one without comes back as it is.
        rank: of the adapters.
        alpha: of the adapters.

    Raises:
        CheckpointError: a tensor that belongs to an adapter is missing; nothing is changed.
        ConfigError: a rank or alpha out of its range.
    """
    check_adapter(rank, alpha, dropout=0.0)
    modules = sorted({name.removesuffix(end) for name in state_dict for end in ADAPTER_ENDINGS if name.endswith(end)})
    missing = [
        f"{module}{end}"
        for module in modules
        for end in (".weight", LORA_A, LORA_B)
        if f"{module}{end}" not in state_dict
    ]
    if missing:
        raise CheckpointError(
            f"Adapters can't be merged without these tensors: {listed(missing)}. Give a whole state dict."
        )
    for module in modules:
        a, b = state_dict.pop(module + LORA_A), state_dict.pop(module + LORA_B)
        weight, magnitude = state_dict[f"{module}.weight"], state_dict.pop(module + MAGNITUDE, None)
        state_dict[f"{module}.weight"] = merged_weight(weight, a, b, alpha / rank, magnitude)
    return state_dict


def validate_missing_and_unexpected_for_lora(
    lora_attn_modules: Sequence[str],
    apply_lora_to_mlp: bool,
    apply_lora_to_output: bool,
    base_missing: Collection[str] | None = None,
    base_unexpected: Collection[str] | None = None,
    lora_missing: Collection[str] | None = None,
    lora_unexpected: Collection[str] | None = None,
) -> None:
    """Checks that base and adapters, each loaded with ``load_state_dict(..., strict=False)``, are whole together.

    Args:
        lora_attn_modules, apply_lora_to_mlp, apply_lora_to_output: what the model was built with.
        base_missing: missing keys of the base's load; those of adapters are expected.
        base_unexpected: its unexpected keys.
        lora_missing: missing keys of the adapters' load; those of the base are expected.
        lora_unexpected: its unexpected keys.

    Raises:
        CheckpointError: a key is missing or unexpected; all are named.
    """
    modules = get_lora_module_names(lora_attn_modules, apply_lora_to_mlp, apply_lora_to_output)
    endings = tuple(f"{module}{end}" for module in modules for end in ADAPTER_ENDINGS)
    wrong = (
        ("missing from the base", [key for key in base_missing or () if not key.endswith(endings)]),
        ("unexpected in the base", list(base_unexpected or ())),
        ("missing from the adapters", [key for key in lora_missing or () if key.endswith(endings)]),
        ("unexpected in the adapters", list(lora_unexpected or ())),
    )
    found = [f"{what}: {listed(keys)}" for what, keys in wrong if keys]
    if found:
        raise CheckpointError(
            f"Keys are {'; '.join(found)}. Load files that were saved from a model with the same LoRA settings."
        )
