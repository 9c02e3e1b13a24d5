"""One file of weights under Meta's names or our own: pickled by torch, or safetensors."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from torchpipe.errors import CheckpointError
from torchpipe.models.hf_files import StoredTensors, open_tensors
from torchpipe.models.hf_names import Layout
from torchpipe.models.layouts import fill_from_layout
from torchpipe.modules import TransformerDecoder


def load_single_file(model: TransformerDecoder, path: str | Path, layout: Layout) -> None:
    """Copies the weights of one file into ``model``, in the model's types and on its devices.

    As :func:`~torchpipe.models.load_hf_weights` otherwise. A pickled file is memory-mapped, and nothing but tensors is
    taken from it (``weights_only``).

    Args:
        model: a decoder of Llama's kind, not on the meta device.
        path: Meta's ``consolidated.00.pth``, or torchtune's ``.pt`` or ``.safetensors`` file.
        layout: whose names the file has.

    Raises:
        CheckpointError: the file can't be read, or does not fit the model.
    """
    path = Path(path)
    with open_single_file(path) as stored:
        fill_from_layout(model, stored, layout, path)


@contextmanager
def open_single_file(path: Path) -> Iterator[StoredTensors]:
    """The tensors of a file, open while the block runs.

    Raises:
        CheckpointError: there is no such file, it is damaged, or it holds something other than tensors by name.
    """
    if not path.is_file():
        raise CheckpointError(f"There is no file {path}. Check checkpoint_dir and checkpoint_files.")
    if path.suffix == ".safetensors":
        with open_tensors(path.parent, [path.name]) as stored:
            yield stored
        return
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # torch.load raises whatever the damaged bytes lead to
        reason = str(error).partition("\n")[0]
        raise CheckpointError(
            f"{path} can't be read as tensors that torch.save wrote ({type(error).__name__}: {reason}). It is cut off, "
            "of another kind, or holds more than tensors: fetch it again."
        ) from error
    if not isinstance(content, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in content.values()):
        raise CheckpointError(f"{path} holds something other than tensors by name. Give a file of weights alone.")
    shapes = {str(name): list(tensor.shape) for name, tensor in content.items()}
    no_floats = {str(name): str(tensor.dtype) for name, tensor in content.items() if not _is_float(tensor)}
    yield StoredTensors(shapes=shapes, no_floats=no_floats, read=content.__getitem__)


def _is_float(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.element_size() >= 2
