"""Weights from and to folders in Hugging Face's layout: ``config.json`` and safetensors files."""

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from torchpipe.errors import CheckpointError, ConfigError
from torchpipe.models.hf_config import (
    CONFIG_FILE,
    QUANTIZATION,
    check_model_type,
    config_json,
    differences,
    read_config_json,
)
from torchpipe.models.hf_families import check_names
from torchpipe.models.hf_files import INDEX_FILE, SINGLE_FILE, open_tensors
from torchpipe.models.hf_names import halves_from_pairs, name_in, row_of
from torchpipe.models.layouts import base_state, fill_from_layout
from torchpipe.models.lora import merged_tensors
from torchpipe.models.publish import published_folder
from torchpipe.models.weights import refuse_meta
from torchpipe.modules import TransformerDecoder

MAX_SHARD_BYTES = 5 * 2**30
"""The largest file that is written, unless one tensor is larger."""


def load_hf_weights(model: TransformerDecoder, folder: str | Path, files: Sequence[str] | None = None) -> None:
    """Copies a folder's weights into ``model``, in the model's types and on its devices.

    Read in bfloat16 and held in float32 they are exact; the other way they are rounded to the nearest. Everything is
    compared before the first tensor is copied, so that a checkpoint that does not fit changes nothing. The files are
    memory-mapped, and one tensor at a time is read from them.

    Of a model with adapters the base is loaded. DoRA's magnitudes are set anew, since they follow from the base; load
    an adapter after its base. An untied model takes its output projection from the embedding where the checkpoint's
    ``config.json`` says that the two are tied.

    Args:
        model: a decoder of Llama's kind, not on the meta device.
        folder: as transformers' ``save_pretrained`` writes it, in one file or in shards.
        files: the names of the files, where they must be these; None takes those that the folder's index names.

    Raises:
        CheckpointError: the folder holds another family's weights, other sizes or another vocabulary; a file is
            missing, cut off or pickled; tensors are missing, extra or of another shape, and every one is named.

    Warns:
        UserWarning: a tensor holds NaN or infinity. It is loaded as it is.
    """
    folder = Path(folder)
    content = read_config_json(folder)
    if content is not None:
        _check_config(model, content, folder)
    with open_tensors(folder, files) as stored:
        check_names(stored.shapes, folder)
        tied = bool(content and content.get("tie_word_embeddings"))
        fill_from_layout(model, stored, "hf", folder, tied=tied)


def save_hf_weights(
    model: TransformerDecoder,
    folder: str | Path,
    *,
    max_shard_bytes: int = MAX_SHARD_BYTES,
    more_config: Mapping[str, Any] | None = None,
) -> None:
    """Writes a folder that transformers' ``AutoModelForCausalLM.from_pretrained`` loads.

    The weights are written in the model's type, those with adapters merged. The folder is published in one step:
    a stop at any moment leaves what was there before.

    Args:
        model: built by :func:`~torchpipe.models.build_decoder`.
        folder: new, or one that holds nothing but earlier weights.
        max_shard_bytes: a file is closed before it grows beyond this; several come with an index.
        more_config: further keys of ``config.json``, such as the publisher's ``eos_token_id``. The model's own facts
            win.

    Raises:
        CheckpointError: the folder can't be written, or holds other files.
        ConfigError: the model was not built from a ``DecoderConfig``, or max_shard_bytes is not positive.
    """
    with published_folder(Path(folder)) as new:
        write_hf_weights(model, new, max_shard_bytes=max_shard_bytes, more_config=more_config)


def write_hf_weights(
    model: TransformerDecoder,
    folder: Path,
    *,
    max_shard_bytes: int = MAX_SHARD_BYTES,
    more_config: Mapping[str, Any] | None = None,
) -> None:
    """As :func:`save_hf_weights`, into a folder that someone else publishes."""
    if max_shard_bytes < 1:
        raise ConfigError(f"max_shard_bytes is {max_shard_bytes}. Give a number of bytes above 0, such as 5 * 2**30.")
    if model.config is None:
        raise ConfigError("The model does not know its config. Build it with torchpipe.models.build_decoder.")
    state = base_state(model)
    refuse_meta(state)
    shards = _shards(state, max_shard_bytes)
    merged = iter(state.items()) if model.lora is None else merged_tensors(model)
    weight_map: dict[str, str] = {}
    for number, size in enumerate(shards, start=1):
        file = SINGLE_FILE if len(shards) == 1 else f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        tensors = {_hf_name(ours): _hf_tensor(ours, tensor, model.head_dim) for ours, tensor in islice(merged, size)}
        save_file(tensors, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(tensors, file)
    if len(shards) > 1:
        total = {
            "total_size": sum(tensor.nbytes for tensor in state.values()),
            "total_parameters": sum(tensor.numel() for tensor in state.values()),
        }
        _write_json(folder / INDEX_FILE, {"metadata": total, "weight_map": dict(sorted(weight_map.items()))})
    own = config_json(model.config, next(iter(state.values())).dtype)
    _write_json(folder / CONFIG_FILE, _whole_config(own, more_config or {}))


def _check_config(model: TransformerDecoder, content: Mapping[str, Any], folder: Path) -> None:
    check_model_type(content, folder / CONFIG_FILE)
    if model.config is not None and (differing := differences(model.config, content)):
        raise CheckpointError(
            f"{folder / CONFIG_FILE} describes another model than the one built: {'; '.join(differing)}. Choose the "
            "builder of this checkpoint's size, or give it these numbers."
        )


def _paired(ours: str) -> bool:
    row = row_of(ours)
    return row is not None and row.paired_rows


def _hf_name(ours: str) -> str:
    name = name_in("hf", ours)
    if name is None:
        raise ConfigError(f"The model's tensor {ours} has no name in Hugging Face's layout: it is no plain Llama.")
    return name


def _hf_tensor(ours: str, tensor: torch.Tensor, head_dim: int) -> torch.Tensor:
    tensor = tensor.detach()
    return (halves_from_pairs(tensor, head_dim) if _paired(ours) else tensor).contiguous()


def _shards(state: Mapping[str, torch.Tensor], max_bytes: int) -> list[int]:
    """How many tensors each file holds, in the model's order; one that is larger than a file has its own."""
    sizes: list[int] = [0]
    held = 0
    for tensor in state.values():
        if sizes[-1] and held + tensor.nbytes > max_bytes:
            sizes.append(0)
            held = 0
        sizes[-1] += 1
        held += tensor.nbytes
    return sizes


def _whole_config(own: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """The model's facts over further keys, without what those say of the same facts in another form."""
    other_forms = {"rope_parameters", "partial_rotary_factor", "dtype", "transformers_version", QUANTIZATION}
    told = {key: value for key, value in more.items() if key not in other_forms}
    # A run may take shorter documents than the weights can; the longer context stays true of them.
    longest = told.get("max_position_embeddings")
    longest = max(own["max_position_embeddings"], longest if isinstance(longest, int) else 0)
    # A decoder does not know where texts begin and end, and without the keys transformers would take ids 1 and 2.
    return {"bos_token_id": None, "eos_token_id": None, **told, **own, "max_position_embeddings": longest}


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
