"""A model's weights as a safetensors file."""

import os
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from torchpipe.errors import CheckpointError


def save_weights(model: nn.Module, path: str | Path) -> None:
    """Writes the state dict to ``path``, under its own names; a weight shared by two modules is written once.

    The file is complete or absent: it is written beside ``path`` first, then renamed. Format:
    https://github.com/huggingface/safetensors.

    Raises:
        CheckpointError: a tensor is on the meta device, so it has no values.
    """
    path = Path(path)
    state = {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}
    _refuse_meta(state)
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
    state = model.state_dict()
    _refuse_meta(state)
    try:
        with safe_open(path, framework="pt") as file:
            shapes = {name: list(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
            _compare(state, shapes, path)
            with torch.no_grad():
                for name, tensor in state.items():
                    tensor.copy_(file.get_tensor(name))
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} can't be read as safetensors: {error}. Check the path and the file.") from error


def _compare(state: dict[str, torch.Tensor], shapes: dict[str, list[int]], path: str | Path) -> None:
    """Raises one error that names everything by which the file and the model differ."""
    missing = sorted(state.keys() - shapes.keys())
    extra = sorted(shapes.keys() - state.keys())
    reshaped = [
        f"{name} (file {shapes[name]}, model {list(tensor.shape)})"
        for name, tensor in state.items()
        if name in shapes and shapes[name] != list(tensor.shape)
    ]
    kinds = (("missing", missing), ("extra", extra), ("of another shape", reshaped))
    differences = [f"{kind}: {', '.join(names)}" for kind, names in kinds if names]
    if differences:
        raise CheckpointError(
            f"{path} does not fit the model. Tensors {'; '.join(differences)}. "
            "Build the model with the config that the file was saved with."
        )


def _refuse_meta(state: dict[str, torch.Tensor]) -> None:
    on_meta = [name for name, tensor in state.items() if tensor.is_meta]
    if on_meta:
        raise CheckpointError(
            f"{len(on_meta)} of the model's tensors are on the meta device, such as {on_meta[0]}: they have no memory "
            "to read from or write to. Call model.to_empty(device=...) first."
        )
