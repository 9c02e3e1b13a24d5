"""A decoder's facts as Hugging Face's ``config.json`` says them.

Written is the form of the publishers' own files (``rope_theta``, ``rope_scaling``), which every release of transformers
reads; read is also the form that transformers 5 writes (``rope_parameters``).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from torchpipe.errors import CheckpointError
from torchpipe.models.config import DecoderConfig

CONFIG_FILE = "config.json"
MODEL_TYPE = "llama"
"""Hugging Face's name of the architecture that ``build_decoder`` builds; Llama 2, 3, 3.1, 3.2 and 3.3 share it."""

QUANTIZATION = "quantization_config"

# Our names of the sizes, and theirs. The longest document is no fact of the weights: a run may choose a shorter one.
_SIZES = {
    "vocab_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "embed_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "norm_eps": "rms_norm_eps",
}
_SCALING = {
    "scale_factor": "factor",
    "low_freq_factor": "low_freq_factor",
    "high_freq_factor": "high_freq_factor",
    "old_context_len": "original_max_position_embeddings",
}
# What ``build_decoder`` always does, and the values that say so.
_FIXED = {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False}


def config_json(config: DecoderConfig, dtype: torch.dtype) -> dict[str, Any]:
    """What ``config.json`` says of a decoder whose weights are saved in ``dtype``."""
    scaling = config.rope_scaling
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": MODEL_TYPE,
        **{theirs: getattr(config, ours) for ours, theirs in _SIZES.items()},
        "head_dim": config.features_per_head,
        "max_position_embeddings": config.max_seq_len,
        "rope_theta": config.rope_base,
        "rope_scaling": scaling
        and {"rope_type": "llama3"} | {theirs: getattr(scaling, ours) for ours, theirs in _SCALING.items()},
        "tie_word_embeddings": config.tied_embeddings,
        "attention_dropout": config.attn_dropout,
        **_FIXED,
        "torch_dtype": str(dtype).removeprefix("torch."),
    }


def read_config_json(folder: Path, name: str = CONFIG_FILE) -> dict[str, Any] | None:
    """The content of a folder's ``config.json``, or of another file with a JSON object; None where it has none.

    Raises:
        CheckpointError: it can't be read as a JSON object.
    """
    path = folder / name
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path} can't be read as JSON: {error}. Fetch it from the model's publisher again."
        ) from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds no JSON object. Fetch it from the model's publisher again.")
    return content


def check_model_type(content: Mapping[str, Any], path: Path) -> None:
    """Refuses the ``config.json`` of another architecture, or of weights in fewer bits.

    Raises:
        CheckpointError: its ``model_type`` is not Llama's, or it has a ``quantization_config``.
    """
    if (found := content.get("model_type")) != MODEL_TYPE:
        raise CheckpointError(
            f"{path} says model_type {found!r}, and the model is a decoder of Llama's kind ({MODEL_TYPE!r}). "
            "Choose a checkpoint of Llama 2, 3, 3.1, 3.2 or 3.3."
        )
    if quantized := content.get(QUANTIZATION):
        method = quantized.get("quant_method") if isinstance(quantized, Mapping) else quantized
        raise CheckpointError(
            f"{path} has a {QUANTIZATION} ({method}): its weights are quantized, and only plain ones are read. Choose "
            "the checkpoint that it was made from."
        )


def differences(config: DecoderConfig, content: Mapping[str, Any]) -> list[str]:
    """Every fact in which a ``config.json`` and a model differ, as "num_heads is 4 there and 8 in the model".

    A different number of ids and whether the output is tied are not among them: tensors have a say in those.
    """
    theirs, ours = _facts(content), _facts(config_json(config, torch.float32))
    return [
        f"{key} is {theirs[key]!r} there and {ours[key]!r} in the model" for key in ours if theirs[key] != ours[key]
    ]


def _facts(content: Mapping[str, Any]) -> dict[str, Any]:
    """What of a ``config.json`` decides the logits, in one form and with the defaults of Llama's config filled in.

    What is not of the type that it should be stays as it is, so that it differs from every model's.
    """
    heads = content.get("num_attention_heads")
    hidden = content.get("hidden_size")
    by_default: dict[str, Any] = {"num_key_value_heads": heads, "rms_norm_eps": 1e-6}
    facts = {key: content.get(key, by_default.get(key)) for key in _SIZES.values() if key != "vocab_size"}
    facts["head_dim"] = content.get("head_dim")
    if not facts["head_dim"] and isinstance(hidden, int) and isinstance(heads, int) and heads > 0:
        facts["head_dim"] = hidden // heads
    return facts | _rope_facts(content) | {key: content.get(key, value) for key, value in _FIXED.items()}


def _rope_facts(content: Mapping[str, Any]) -> dict[str, Any]:
    stated = content.get("rope_parameters") or content.get("rope_scaling") or {}
    theta = content.get("rope_theta", 10_000.0)
    if not isinstance(stated, Mapping):
        return {"rope_theta": theta, "rope_scaling": stated}
    # The whole head is turned here; a key of another kind of scaling stays, so that it is refused and not left out.
    rope = {"partial_rotary_factor": content.get("partial_rotary_factor"), **stated}
    rope = {key: value for key, value in rope.items() if value is not None}
    if rope.get("partial_rotary_factor") == 1:
        del rope["partial_rotary_factor"]
    theta = rope.pop("rope_theta", theta)
    kind = rope.pop("rope_type", rope.pop("type", "default"))
    scaling = {"rope_type": kind, **{key: _number(value) for key, value in rope.items()}}
    return {"rope_theta": _number(theta), "rope_scaling": None if scaling == {"rope_type": "default"} else scaling}


def _number(value: Any) -> Any:
    """An integer of JSON's as the float that it stands for; anything else as it is."""
    try:
        return float(value) if isinstance(value, int) else value
    except OverflowError:
        return value
