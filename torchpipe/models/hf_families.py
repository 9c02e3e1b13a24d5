"""Telling a Llama checkpoint from another one by the names of its tensors."""

import re
from collections.abc import Iterable
from pathlib import Path

from torchpipe.errors import CheckpointError

_LLAMA = "Choose a checkpoint of Llama 2, 3, 3.1, 3.2 or 3.3."
_OTHERS: tuple[tuple[str, str, str], ...] = (
    (r"base_model\.model\.", "an adapter in PEFT's layout", "Name it as adapter_checkpoint, beside the base model."),
    (r"layers\.\d+\.attention\.wq\.", "in Meta's layout", "Read it with FullModelMetaCheckpointer."),
    (r"layers\.\d+\.attn\.q_proj\.", "in torchtune's layout", "Read it with FullModelTorchTuneCheckpointer."),
    (r"(model\.)?(language_model|vision_model|multi_modal_projector)\.", "a model of text and images", _LLAMA),
    (r"model\.layers\.\d+\.self_attn\.[qk]_norm\.", "Qwen 3, Gemma 3 or another with norms of queries", _LLAMA),
    (r"model\.layers\.\d+\.pre_feedforward_layernorm\.", "Gemma 2", _LLAMA),
    (r"model\.layers\.\d+\.self_attn\.[qkv]_proj\.bias", "Qwen 2 or another with biases in attention", _LLAMA),
    (r"model\.layers\.\d+\.self_attn\.qkv_proj\.", "Phi 3 or Phi 4", _LLAMA),
    (
        r"model\.layers\.\d+\.(mlp|block_sparse_moe|feed_forward)\.(gate|experts|router)\.",
        "a mixture of experts",
        _LLAMA,
    ),
    (r"(transformer\.|gpt_neox\.|bert\.|encoder\.|decoder\.)", "another architecture", _LLAMA),
)
"""How a tensor's name begins, whose checkpoint has it, and what to do."""


def check_names(names: Iterable[str], path: str | Path) -> None:
    """Refuses a checkpoint whose tensors have the names of another family or layout.

    Gemma's first model has Llama's names, and only its ``config.json`` tells the two apart.

    Raises:
        CheckpointError: says whose names they are.
    """
    names = sorted(names)
    for pattern, family, do in _OTHERS:
        found = next((name for name in names if re.match(pattern, name)), None)
        if found is not None:
            raise CheckpointError(
                f"{path} is {family}, as the tensor {found} shows, and the model takes Llama's weights in Hugging "
                f"Face's layout. {do}"
            )
