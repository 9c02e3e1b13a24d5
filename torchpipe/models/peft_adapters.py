"""Adapters from and to folders in PEFT's layout: ``adapter_config.json`` and ``adapter_model.safetensors``.

PEFT names a tensor by the path of its module in the transformers model that it wraps, as
``base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight``
(https://huggingface.co/docs/peft/developer_guides/checkpoint).
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from torchpipe.errors import CheckpointError, ConfigError
from torchpipe.models.hf_files import FLOATS, refuse_no_floats, unreadable
from torchpipe.models.hf_names import OUTPUT, halves_from_pairs, name_in, pairs_from_halves, row_of
from torchpipe.models.layouts import base_state
from torchpipe.models.publish import published_folder
from torchpipe.models.weights import check_tensors, refuse_meta, shapes_of
from torchpipe.modules import TransformerDecoder
from torchpipe.modules.peft import LoRAConfig
from torchpipe.modules.peft.state_dicts import LORA_A, LORA_B, MAGNITUDE, get_adapter_state_dict

ADAPTER_FILE, ADAPTER_CONFIG_FILE = "adapter_model.safetensors", "adapter_config.json"
_PREFIX = "base_model.model."

_BASE_OUTPUT = f"{_PREFIX}lm_head.base_layer.weight"
"""The base's output projection, which PEFT adds where it has an adapter."""

# The end of an adapter's name: ours, PEFT's, and whether it has one row for each of the matrix's, whose order differs.
_ENDINGS = {LORA_A: (".lora_A.weight", False), LORA_B: (".lora_B.weight", True)}
_ENDINGS[MAGNITUDE] = (".lora_magnitude_vector", True)

# Keys of adapter_config.json that are read here, or that do not change what a stored adapter computes. Any other one
# that asks for something is refused, those of later releases of PEFT included.
# fmt: off
_HARMLESS = frozenset((
    "auto_mapping", "base_model_name_or_path", "corda_config", "ensure_weight_tying", "eva_config",
    "exclude_modules", "inference_mode", "init_lora_weights", "layers_pattern", "layers_to_transform",
    "loftq_config", "lora_alpha", "lora_dropout", "lora_ga_config", "megatron_config", "megatron_core",
    "peft_type", "peft_version", "qalora_group_size", "r", "revision", "runtime_config", "target_modules",
    "task_type", "use_dora",
))
# fmt: on
_KEEP_THE_BASE = (True, False, None, "gaussian", "eva", "orthogonal")
"""Ways of starting an adapter that leave the base's weights as they are."""


def save_peft_adapter(model: TransformerDecoder, folder: str | Path, *, base_model: str | None = None) -> None:
    """Writes a folder that PEFT's ``PeftModel.from_pretrained(base, folder)`` loads.

    The folder is published in one step; a stop at any moment leaves what was there before.

    Args:
        model: has LoRA or DoRA adapters.
        folder: new, or one that holds nothing but earlier weights.
        base_model: where PEFT finds the base, a folder or a name on the hub; it goes into ``adapter_config.json``.

    Raises:
        ConfigError: the model has no adapters.
        CheckpointError: the folder can't be written, or holds other files.
    """
    with published_folder(Path(folder)) as new:
        write_peft_adapter(model, new, base_model=base_model)


def write_peft_adapter(model: TransformerDecoder, folder: Path, *, base_model: str | None = None) -> None:
    """As :func:`save_peft_adapter`, into a folder that someone else publishes."""
    state = adapter_state(model)
    tensors = {}
    for ours, tensor in state.items():
        rows = halves_from_pairs(tensor, model.head_dim) if _paired(ours) else tensor
        tensors[peft_name(ours)] = rows.detach().contiguous()
    save_file(tensors, folder / ADAPTER_FILE, metadata={"format": "pt"})
    content = json.dumps(adapter_config_json(lora_of(model), state, base_model), indent=2, sort_keys=True)
    (folder / ADAPTER_CONFIG_FILE).write_text(content + "\n", encoding="utf-8")


def load_peft_adapter(model: TransformerDecoder, folder: str | Path) -> None:
    """Copies an adapter in PEFT's layout into those of ``model``, in the model's types and on its devices.

    Load the base first: that sets DoRA's magnitudes anew.

    Raises:
        ConfigError: the model has no adapters.
        CheckpointError: a file is missing or damaged; the adapter has another rank, alpha or kind, or settings that no
            adapter here has; tensors are missing, extra or of another shape. Nothing is changed then.
    """
    folder = Path(folder)
    lora, state = lora_of(model), adapter_state(model)
    _check_config(lora, _read_config(folder), folder / ADAPTER_CONFIG_FILE)
    path = folder / ADAPTER_FILE
    if not path.is_file():
        raise CheckpointError(f"{folder} holds no {ADAPTER_FILE}. Give the folder that PEFT's save_pretrained wrote.")
    try:
        with safe_open(path, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            shapes = {name: list(tensor.get_shape()) for name, tensor in slices.items()}
            kinds = {name: tensor.get_dtype() for name, tensor in slices.items()}
            expected = {peft_name(ours): shape for ours, shape in shapes_of(state).items()}
            own_output = base_state(model).get(OUTPUT.ours)
            if _BASE_OUTPUT in shapes and own_output is not None and _same(file.get_tensor(_BASE_OUTPUT), own_output):
                del shapes[_BASE_OUTPUT]
            check_tensors(
                expected, shapes, path, do="Give the model adapters on the same matrices and of the same rank."
            )
            refuse_no_floats({name: kind for name, kind in kinds.items() if kind not in FLOATS}, path)
            with torch.no_grad():
                for ours, tensor in state.items():
                    stored = file.get_tensor(peft_name(ours))
                    tensor.copy_(pairs_from_halves(stored, model.head_dim) if _paired(ours) else stored)
    except (OSError, ValueError, SafetensorError) as error:
        raise unreadable(path, error) from error


def adapter_state(model: TransformerDecoder) -> dict[str, torch.Tensor]:
    """The adapters' tensors by our names, those of the model itself.

    Raises:
        CheckpointError: they are on the meta device.
    """
    state = get_adapter_state_dict(model.state_dict(), device=None)
    refuse_meta(state)
    return state


def lora_of(model: TransformerDecoder) -> LoRAConfig:
    """The model's adapters' config.

    Raises:
        ConfigError: it has none.
    """
    if model.lora is None:
        raise ConfigError("The model has no adapters. Build it with one of the lora_ builders, or call add_lora.")
    return model.lora


def peft_name(ours: str) -> str:
    """PEFT's name of one of our adapters' tensors.

    >>> peft_name("layers.3.mlp.w1.lora_b.weight")
    'base_model.model.model.layers.3.mlp.gate_proj.lora_B.weight'
    """
    module, ending = _split(ours)
    theirs = name_in("hf", f"{module}.weight")
    if theirs is None:
        raise ConfigError(f"The adapter {ours} stands beside no matrix of a Llama, so PEFT has no name for it.")
    return f"{_PREFIX}{theirs.removesuffix('.weight')}{_ENDINGS[ending][0]}"


def adapter_config_json(lora: LoRAConfig, names: Iterable[str], base_model: str | None) -> dict[str, Any]:
    """The content of ``adapter_config.json``.

    Args:
        lora: the adapters' sizes.
        names: of the adapters' tensors, ours.
        base_model: where PEFT finds the base.
    """
    targets = {peft_name(name).partition(".lora_")[0].rpartition(".")[2] for name in names}
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base_model,
        "r": lora.rank,
        "lora_alpha": int(lora.alpha) if float(lora.alpha).is_integer() else lora.alpha,  # PEFT's are integers
        "lora_dropout": lora.dropout,
        "use_dora": lora.use_dora,
        "target_modules": sorted(targets),
        "inference_mode": True,
        "bias": "none",
    }


def _same(stored: torch.Tensor, own: torch.Tensor) -> bool:
    return stored.shape == own.shape and torch.equal(stored.to(own), own)


def _split(ours: str) -> tuple[str, str]:
    ending = next(ending for ending in _ENDINGS if ours.endswith(ending))
    return ours.removesuffix(ending), ending


def _paired(ours: str) -> bool:
    """Whether the tensor has rows that PEFT, as Hugging Face, keeps half a head apart."""
    module, ending = _split(ours)
    row = row_of(f"{module}.weight")
    return _ENDINGS[ending][1] and row is not None and row.paired_rows


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / ADAPTER_CONFIG_FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return dict(content)
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{folder} holds no {ADAPTER_CONFIG_FILE}. Give the folder that PEFT's save_pretrained wrote."
        ) from error
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path} can't be read as a JSON object: {error}. Write the adapter anew.") from error


def _check_config(lora: LoRAConfig, content: Mapping[str, Any], path: Path) -> None:
    if (kind := content.get("peft_type")) != "LORA":
        raise CheckpointError(f"{path} describes an adapter of PEFT's kind {kind!r}, and only LORA is read.")
    asked = [f"{key}={value!r}" for key, value in content.items() if key not in _HARMLESS and value and value != "none"]
    if (start := content.get("init_lora_weights")) not in _KEEP_THE_BASE:
        asked.append(f"init_lora_weights={start!r}")
    if asked:
        raise CheckpointError(
            f"{path} asks for {', '.join(sorted(asked))}, which no adapter here has. Merge it into its base with PEFT."
        )
    ours = {"r": lora.rank, "lora_alpha": lora.alpha, "use_dora": lora.use_dora}
    default = {"use_dora": False}
    theirs = {key: content.get(key, default.get(key)) for key in ours}
    differing = [
        f"{key} is {theirs[key]!r} there and {ours[key]!r} in the model" for key in ours if theirs[key] != ours[key]
    ]
    if differing:
        raise CheckpointError(
            f"{path} describes another adapter: {'; '.join(differing)}. Give the model these numbers as lora_rank, "
            "lora_alpha and use_dora."
        )
