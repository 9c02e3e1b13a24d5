"""A model's weights as a safetensors file, and what a file and a model differ in."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from torchpipe.errors import CheckpointError

_NAMES_IN_A_SENTENCE = 8


def save_weights(model: nn.Module, path: str | Path) -> None:
    """Writes the state dict to ``path``, under its own names; a weight shared by two modules is written once.

    The file is complete or absent: it is written beside ``path`` first, then renamed. Format:
    https://github.com/huggingface/safetensors.

    Raises:
        CheckpointError: a tensor is on the meta device, so it has no values.
    """
    save_tensors(model.state_dict(), path)


def save_tensors(tensors: Mapping[str, torch.Tensor], path: str | Path) -> None:
    """As :func:`save_weights`, for tensors by name."""
    path = Path(path)
    state = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    refuse_meta(state)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        save_file(state, unfinished, metadata={"format": "pt"})
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def load_weights(model: nn.Module, path: str | Path) -> None:
    """Copies the tensors of a file from :func:`save_weights` into ``model``, in the model's types and devices.

    Names and shapes are compared first, so that a file that does not fit changes nothing.

    Raises:
        CheckpointError: the file can't be read, or tensors are missing, extra or of another shape; every one is named.
            Also when the model is on the meta device, where there is nothing to copy to.
    """
    load_tensors(model.state_dict(), path)


def load_tensors(tensors: Mapping[str, torch.Tensor], path: str | Path) -> None:
    """As :func:`load_weights`, into tensors by name."""
    refuse_meta(tensors)
    try:
        with safe_open(path, framework="pt") as file:
            shapes = {name: list(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
            check_tensors(shapes_of(tensors), shapes, path)
            with torch.no_grad():
                for name, tensor in tensors.items():
                    tensor.copy_(file.get_tensor(name))
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} can't be read as safetensors: {error}. Check the path and the file.") from error


def shapes_of(tensors: Mapping[str, torch.Tensor]) -> dict[str, list[int]]:
    """The shape of each tensor, by name."""
    return {name: list(tensor.shape) for name, tensor in tensors.items()}


def check_tensors(
    expected: Mapping[str, Sequence[int]],
    found: Mapping[str, Sequence[int]],
    path: str | Path,
    *,
    do: str = "Build the model with the config that the file was saved with.",
) -> None:
    """Raises one error that names everything by which a file and a model differ.

    Of a long list the sentence has the first names and the number of the others; the error's notes have all.

    Args:
        expected: the shape of each of the model's tensors, under the file's names.
        found: the shape of each of the file's tensors.
        path: the file or folder.
        do: the advice.

    Raises:
        CheckpointError: a tensor is missing, extra or of another shape.
    """
    lists = {
        "missing": sorted(expected.keys() - found.keys()),
        "extra": sorted(found.keys() - expected.keys()),
        "of another shape": [
            f"{name} (file {list(found[name])}, model {list(shape)})"
            for name, shape in expected.items()
            if name in found and list(found[name]) != list(shape)
        ],
    }
    differences = {kind: names for kind, names in lists.items() if names}
    if not differences:
        return
    listed = "; ".join(f"{kind}: {_shortened(names)}" for kind, names in differences.items())
    error = CheckpointError(f"{path} does not fit the model. Tensors {listed}. {do}")
    for kind, names in differences.items():
        if len(names) > _NAMES_IN_A_SENTENCE:
            error.add_note(f"All {len(names)} tensors {kind}: {', '.join(names)}")
    raise error


def digest(tensors: Mapping[str, torch.Tensor]) -> str:
    """A hash of names, types, shapes and values, as 32 hexadecimal digits.

    >>> digest({"a": torch.zeros(2)}) == digest({"a": torch.zeros(2)}), digest({"a": torch.zeros(2)}) == digest({})
    (True, False)
    """
    total = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        total.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        total.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()[:32]


def refuse_meta(tensors: Mapping[str, torch.Tensor]) -> None:
    """Raises a CheckpointError where tensors are on the meta device, which have no values to read or to write to."""
    on_meta = [name for name, tensor in tensors.items() if tensor.is_meta]
    if on_meta:
        raise CheckpointError(
            f"{len(on_meta)} of the model's tensors are on the meta device, such as {on_meta[0]}: they have no memory "
            "to read from or write to. Call model.to_empty(device=...) first."
        )


def _shortened(names: Sequence[str]) -> str:
    left = len(names) - _NAMES_IN_A_SENTENCE
    return ", ".join(names[:_NAMES_IN_A_SENTENCE]) + (f" and {left} more" if left > 0 else "")
