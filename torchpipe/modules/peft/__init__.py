"""Low-rank adapters: small trainable matrices beside a model's frozen weights."""

from torchpipe._not_yet import refusing
from torchpipe.modules.peft.adapters import (
    AdapterModule,
    disable_adapter,
    get_adapter_params,
    initialize_adapters,
    initialize_dora_magnitude,
    set_trainable_params,
)
from torchpipe.modules.peft.config import LORA_ATTN_MODULES, LoRAConfig, get_lora_module_names
from torchpipe.modules.peft.dora import DoRALinear
from torchpipe.modules.peft.lora import LoRALinear
from torchpipe.modules.peft.state_dicts import (
    get_adapter_state_dict,
    get_merged_lora_ckpt,
    validate_missing_and_unexpected_for_lora,
)
from torchpipe.modules.peft.surgery import add_lora

__all__ = [
    "LORA_ATTN_MODULES",
    "AdapterModule",
    "DoRALinear",
    "LoRAConfig",
    "LoRALinear",
    "add_lora",
    "disable_adapter",
    "get_adapter_params",
    "get_adapter_state_dict",
    "get_lora_module_names",
    "get_merged_lora_ckpt",
    "initialize_adapters",
    "initialize_dora_magnitude",
    "set_trainable_params",
    "validate_missing_and_unexpected_for_lora",
]

__getattr__ = refusing(__name__)
